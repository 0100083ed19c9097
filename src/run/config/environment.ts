/**
 * Reads the environment and `.env` into the one {@link Config}.
 */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { isMissing } from '../../platform/files/files.ts';
import { findMisspelt, refuseSharedPorts } from './check-settings.ts';
import { explainFileError, problemLine, SettingRefused } from './config-error.ts';
import { type ImapOptions, publicUrlOf, type Server, type ServerAddress } from './parse-urls.ts';
import {
  configKeys,
  readSettings,
  type ShownSetting,
  showSettings,
  type Values,
} from './settings.ts';

/** The settings by part of the product: plain values, checked, deeply frozen. `groupByPart` says what each is. */
export interface Config extends Parts {
  /** Every key as it may be shown to operators. */
  readonly shown: readonly ShownSetting[];
  /** Lines about names in the environment and in `.env` that are no setting, but nearly one. */
  readonly misspelt: readonly string[];
}

type Parts = Frozen<ReturnType<typeof groupByPart>>;

type Frozen<Value> = { readonly [Name in keyof Value]: Frozen<Value[Name]> };

/** An IMAP server as the mail store; its login is a master user's. */
export interface ImapMailstore extends Server, ImapOptions {
  readonly kind: 'imap';
  /** Where its mail is delivered by LMTP. */
  readonly deliverTo: ServerAddress | undefined;
}

/**
 * Reads the configuration.
 *
 * A blank value counts as absent. A key that is absent in `env` is read from the file `.env`, then from the defaults.
 * Other keys are ignored: the environment is shared. Those that look like slips are in {@link Config.misspelt}.
 *
 * @param folder of `.env`, and of relative paths
 * @throws SettingRefused with one line for each invalid key
 */
export function readConfig(env: NodeJS.ProcessEnv, folder: string = process.cwd()): Config {
  const file = readEnvFile(join(folder, '.env'));
  const lookup = (key: string) => (env[key]?.trim() ? env[key] : file[key]);
  const values = readSettings(lookup);
  const config = groupByPart(values, folder);
  refuseSharedPorts(portsOf(config));
  const misspelt = [
    ...findMisspelt(Object.keys(env), configKeys),
    ...findMisspelt(Object.keys(file), configKeys).map((line) => `.env: ${line}`),
  ];
  return deepFreeze({ ...config, shown: showSettings(lookup), misspelt });
}

function readEnvFile(path: string): NodeJS.Dict<string> {
  try {
    // parseEnv reads a byte order mark as part of the first name.
    return parseEnv(readFileSync(path, 'utf8').replace(/^\uFEFF/, ''));
  } catch (error) {
    if (isMissing(error)) return {};
    const line = problemLine(path, 'a readable file', explainFileError(error));
    throw new SettingRefused([line], { cause: error });
  }
}

function portsOf({ http, smtp, lmtp, imap, submission, metrics }: Parts) {
  return [
    { key: 'PORT', host: http.host, port: http.port },
    { key: 'SMTP_PORT', host: smtp.host, port: smtp.port },
    { key: 'LMTP_PORT', host: lmtp.host, port: lmtp.port },
    { key: 'IMAPS_PORT', host: imap.host, port: imap.tlsPort },
    { key: 'IMAP_PORT', host: imap.host, port: imap.port },
    { key: 'SUBMISSIONS_PORT', host: submission.host, port: submission.tlsPort },
    { key: 'SUBMISSION_PORT', host: submission.host, port: submission.port },
    { key: 'METRICS_PORT', host: metrics.host, port: metrics.port },
  ];
}

function groupByPart(values: Values, folder: string) {
  const ownUrl = values.PUBLIC_URL ?? publicUrlOf(values.HOST, values.PORT);
  const absolute = (path: string | undefined) =>
    path === undefined ? undefined : resolve(folder, path);
  const dataDir = resolve(folder, values.DATA_DIR);
  return {
    /** Absolute path. */
    dataDir,
    /** Our MX host and our name in SMTP, in lower case. */
    mailHostname: values.MAIL_HOSTNAME,
    /** The name that the seeded SPF record of each domain includes. */
    spfInclude: values.SPF_INCLUDE ?? `spf.${values.MAIL_HOSTNAME}`,
    logLevel: values.LOG_LEVEL,
    /** The mailbox in the browser; its colour is `#rrggbb`, the usual one where undefined. */
    webmail: { isOn: values.WEBMAIL, name: values.WEBMAIL_NAME, color: values.WEBMAIL_COLOR },
    ...listenersOf(values, ownUrl),
    /** How long a stop lets load balancers find another node before the listeners close. */
    drainSeconds: values.DRAIN_SECONDS,
    /** How long operators can find what happened to a message; 0 days: nothing is kept. */
    trace: { days: values.TRACE_DAYS, subjects: values.TRACE_SUBJECTS },
    limits: {
      /** HTTP requests per minute and client address; 0: no limit. */
      ratePerMinute: values.RATE_LIMIT_PER_MINUTE,
      /** Bytes of one message; SIZE of SMTP (RFC 1870). */
      maxMessageBytes: values.MAX_MESSAGE_BYTES,
      /** Bytes that an account may store where it has no quota of its own; 0: no limit. */
      quotaBytes: values.QUOTA_BYTES,
      /** How long messages stay in Trash and Junk; 0: for good. */
      trashDays: values.TRASH_DAYS,
      /** How long events are kept for backends. */
      eventDays: values.EVENT_DAYS,
      /** How long an ended delivery can be attempted again. */
      deliveryBodyHours: values.DELIVERY_BODY_HOURS,
      /** How long a large body stays after nothing names it any more; 0: it is removed at once. */
      bodyKeepHours: values.BODY_KEEP_HOURS,
      /** How old the last backup may be before operators are told; 0: nobody asks. */
      backupMaxAgeHours: values.BACKUP_MAX_AGE_HOURS,
    },
    database: {
      /** Postgres URLs with their password, one for each host; undefined: SQLite in the data folder. */
      urls: values.DATABASE_URL,
      /** The most connections. */
      poolSize: values.DATABASE_POOL_SIZE,
      /** For one statement, and for a connection. */
      timeoutMs: values.DATABASE_TIMEOUT_SECONDS * 1000,
    },
    /** What several nodes share; undefined for a single node. */
    redis: values.REDIS_URL,
    /** Where the sources of large messages are kept. */
    bodies: {
      /** Absolute path. */
      folder: join(dataDir, 'bodies'),
      /** Absolute path, for those on their way into the bucket. */
      spool: join(dataDir, 'spool'),
      /** In place of the folder. */
      bucket: values.S3_URL,
    },
    mailstore: mailstoreOf(values, absolute),
    /** `ip`, `ip:port` or `[ip]:port`; none: the resolvers of the system. */
    dns: { servers: values.DNS_SERVERS },
    /** Undefined members come from the generated secrets. */
    credentials: {
      /** At least one. */
      apiKeys: values.API_KEYS,
      /** The UTF-8 bytes of each are an HMAC key. */
      mailserverWebhookSecret: values.MAILSERVER_WEBHOOK_SECRET,
    },
    jwt: {
      /** The UTF-8 bytes of each are a key of HS256, the first one signs; undefined: the generated secret. */
      secret: values.JWT_SECRET,
      /** PEM of a SubjectPublicKeyInfo; never together with `jwksUrl`. */
      publicKey: values.JWT_PUBLIC_KEY,
      jwksUrl: values.JWT_JWKS_URL,
      /** Checked when set, as the audience is. */
      issuer: values.JWT_ISSUER,
      audience: values.JWT_AUDIENCE,
      /** Name of the claim that holds the account's address. */
      accountClaim: values.JWT_ACCOUNT_CLAIM,
    },
    /** Absolute paths of PEM files, both or neither. */
    tls: { cert: absolute(values.TLS_CERT), key: absolute(values.TLS_KEY) },
    outbound: {
      /** The smarthost; undefined: direct to the MX hosts of each domain. */
      relay: values.SMTP_RELAY_URL,
      /** TCP port of those MX hosts. */
      mxPort: values.MX_PORT,
      /** Private networks (`address/bits`) that webhooks may reach. */
      allowCidrs: values.OUTBOUND_ALLOW_CIDRS,
    },
    /** The process beside a mail server (`src/notifier.ts`). */
    notifier: {
      /** Absolute path of the folder that the mail server writes to. */
      spool: resolve(folder, values.NOTIFIER_SPOOL),
      /** Where change events are posted. */
      url: values.NOTIFIER_URL ?? `${ownUrl}/hooks/mailserver`,
    },
    senderChecks: {
      /** Refuse mail that fails a `p=reject` policy (RFC 7489 section 6.3). */
      dmarcEnforce: values.DMARC_ENFORCE,
      /** Of the spam filter; undefined: there is none. */
      rspamdUrl: values.RSPAMD_URL,
    },
    sending: {
      /** Whether accounts may send. */
      enabled: values.SEND_ENABLED,
      /** Recipients that one account may write to in 24 hours; 0: no limit. */
      recipientsPerDay: values.SEND_RECIPIENTS_PER_DAY,
    },
  };
}

function listenersOf(values: Values, publicUrl: string) {
  return {
    http: {
      host: values.HOST,
      /** 0: one that is free. */
      port: values.PORT,
      /** Without a slash at its end. */
      publicUrl,
      /** Whether PUBLIC_URL was set; if not, and the port is 0, `publicUrlOf` gives it after the bind. */
      publicUrlGiven: values.PUBLIC_URL !== undefined,
      /** Networks (`address/bits`) whose X-Forwarded-For counts. */
      trustProxy: values.TRUST_PROXY,
      /** Origins, or `*`. */
      corsOrigins: values.CORS_ORIGINS,
      /** Concurrent connections of one address. */
      maxPerIp: values.HTTP_MAX_PER_IP,
      /** Concurrent connections of all addresses. */
      maxConnections: values.HTTP_MAX_CONNECTIONS,
    },
    /** Port 0: off, as for all listeners below. */
    smtp: {
      host: values.SMTP_HOST,
      port: values.SMTP_PORT,
      /** Concurrent connections of one address; ten times as many of one in a trusted network. */
      maxPerIp: values.SMTP_MAX_PER_IP,
      /** Concurrent connections of all addresses. */
      maxConnections: values.SMTP_MAX_CONNECTIONS,
      /** Networks (`address/bits`) of the operator's relays. */
      trustedNetworks: values.SMTP_TRUSTED_NETWORKS,
      /** Networks (`address/bits`) of load balancers that speak the PROXY protocol. */
      proxyNetworks: values.SMTP_PROXY_NETWORKS,
    },
    lmtp: { host: values.LMTP_HOST, port: values.LMTP_PORT },
    /** For mail programs: `tlsPort` is where a connection begins with TLS, `port` is for STARTTLS. */
    imap: {
      host: values.IMAP_HOST ?? values.SMTP_HOST,
      tlsPort: values.IMAPS_PORT,
      port: values.IMAP_PORT,
      proxyNetworks: values.IMAP_PROXY_NETWORKS,
      /** Extensions that are not offered, in upper case. */
      disabled: values.IMAP_DISABLE,
    },
    /** The same, for what they send. */
    submission: {
      host: values.SUBMISSION_HOST ?? values.SMTP_HOST,
      tlsPort: values.SUBMISSIONS_PORT,
      port: values.SUBMISSION_PORT,
      proxyNetworks: values.SUBMISSION_PROXY_NETWORKS,
    },
    metrics: { host: values.METRICS_HOST, port: values.METRICS_PORT },
  };
}

function mailstoreOf(
  { MAILSTORE_URL: server, LMTP_URL }: Values,
  absolute: (path: string | undefined) => string | undefined,
): { readonly kind: 'embedded' } | ImapMailstore {
  if (server === 'embedded') return { kind: 'embedded' };
  return { kind: 'imap', ...server, ca: absolute(server.ca), deliverTo: LMTP_URL };
}

function deepFreeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) deepFreeze(member);
    Object.freeze(value);
  }
  return value;
}
