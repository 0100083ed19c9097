/**
 * The operator's settings, and what a first start makes: the environment as one checked, frozen {@link Config}; the
 * generated secrets; the certificate of STARTTLS; the text of a start.
 *
 * In storage: the data folder (DATA_DIR, mode 0700) with `secrets.json` (mode 0600, one JSON object, never made again)
 * and `tls/cert.pem`, `tls/key.pem` (mode 0600, made again when they do not fit). With PostgreSQL the secrets are
 * where `settingStore` of the database puts them.
 *
 * Only `compose/`, `cli/`, `main.ts` and `notifier.ts` read it; the parts get plain values. Every error that prevents a start is a {@link ConfigError},
 * whose lines are for the operator.
 */
export {
  type Certificate,
  type CertificateOptions,
  loadCertificate,
  refuseUnfitCertificate,
} from './certificate.ts';
export { ConfigError, exitCodeOf, SettingRefused } from './config-error.ts';
export {
  beginMove,
  completeMove,
  databaseFile,
  dataDirError,
  ensureDataDir,
  type FolderMove,
  forgetMove,
  readMove,
  refuseMoved,
  UNFINISHED_RESTORE,
  watchPaths,
} from './data-folder.ts';
export { type Config, type ImapMailstore, readConfig } from './environment.ts';
export { databaseUrl } from './parse-database-url.ts';
export { bucketUrl, publicUrlOf, redactUrl } from './parse-urls.ts';
export {
  type BoundAddress,
  type BoundAddresses,
  describeStart,
  programName,
  type Start,
} from './quickstart.ts';
export {
  digestOf,
  dropOldValues,
  fileSecretStore,
  loadSecrets,
  newestDigest,
  parseSecrets,
  type RotatedSecret,
  rotateSecret,
  type Secrets,
  secretsPath,
  signWithLast,
} from './secrets.ts';
export { configKeys, readArgument, type ShownSetting } from './settings.ts';
