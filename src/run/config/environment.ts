/**
 * Reads the environment and `.env` into the one {@link Config}.
 */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { isMissing } from '../../platform/files/files.ts';
import type { SigningKeys } from '../../platform/nodes/nodes.ts';
import { findMisspelt, refuseSharedPorts } from './check-settings.ts';
import { ConfigError, explainFileError, problemLine } from './config-error.ts';
import {
  type BucketUrl,
  type ImapOptions,
  publicUrlOf,
  type RedisAddress,
  type Server,
  type ServerAddress,
} from './parse-urls.ts';
import {
  configKeys,
  readSettings,
  type ShownSetting,
  showSettings,
  type Values,
} from './settings.ts';

/** Where a listener of the service listens. */
export interface Listener {
  /** IP address or host name. */
  readonly host: string;
  /** 0: off, for HTTP any free port. */
  readonly port: number;
}

/** The settings by part of the product: plain values, checked, deeply frozen. */
export interface Config {
  /** Absolute path. */
  readonly dataDir: string;
  /** Our MX host and our name in SMTP, in lower case. */
  readonly mailHostname: string;
  /** The name that the seeded SPF record of each domain includes. */
  readonly spfInclude: string;
  readonly logLevel: Values['LOG_LEVEL'];
  /** Every key as it may be shown to operators. */
  readonly shown: readonly ShownSetting[];
  /** Lines about names in `.env` that are no setting, but nearly one. */
  readonly misspelt: readonly string[];
  readonly http: Listener & {
    /** Without a slash at its end. */
    readonly publicUrl: string;
    /** Whether PUBLIC_URL was set; if not, and the port is 0, `publicUrlOf` gives it after the bind. */
    readonly publicUrlGiven: boolean;
    /** Networks (`address/bits`) whose X-Forwarded-For counts. */
    readonly trustProxy: readonly string[];
    /** Origins, or `*`. */
    readonly corsOrigins: readonly string[];
    /** Concurrent connections of one address. */
    readonly maxPerIp: number;
    /** Concurrent connections of all addresses. */
    readonly maxConnections: number;
  };
  /** The mailbox in the browser. */
  readonly webmail: {
    readonly isOn: boolean;
    readonly name: string;
    /** `#rrggbb`; the usual one where undefined. */
    readonly color: string | undefined;
  };
  readonly smtp: Listener & {
    /** Concurrent connections of one address; ten times as many of one in a trusted network. */
    readonly maxPerIp: number;
    /** Concurrent connections of all addresses. */
    readonly maxConnections: number;
    /** Networks (`address/bits`) of the operator's relays. */
    readonly trustedNetworks: readonly string[];
    /** Networks (`address/bits`) of load balancers that speak the PROXY protocol. */
    readonly proxyNetworks: readonly string[];
  };
  readonly lmtp: Listener;
  /** For mail programs; port 0: off. */
  readonly imap: ProgramListener & {
    /** Extensions that are not offered, in upper case. */
    readonly disabled: readonly string[];
  };
  /** The same, for what they send. */
  readonly submission: ProgramListener;
  /** Port 0: off. */
  readonly metrics: { readonly host: string; readonly port: number };
  /** How long a stop lets load balancers find another node before the listeners close. */
  readonly drainSeconds: number;
  /** How long operators can find what happened to a message; 0: nothing is kept. */
  readonly trace: { readonly days: number; readonly subjects: boolean };
  readonly limits: {
    /** HTTP requests per minute and client address; 0: no limit. */
    readonly ratePerMinute: number;
    /** Bytes of one message; SIZE of SMTP (RFC 1870). */
    readonly maxMessageBytes: number;
    /** Bytes that an account may store where it has no quota of its own; 0: no limit. */
    readonly quotaBytes: number;
    /** How long messages stay in Trash and Junk; 0: for good. */
    readonly trashDays: number;
    /** How long events are kept for backends. */
    readonly eventDays: number;
    /** How long an ended delivery can be attempted again. */
    readonly deliveryBodyHours: number;
    /** How long a large body stays after nothing names it any more; 0: it is removed at once. */
    readonly bodyKeepHours: number;
    /** How old the last backup may be before operators are told; 0: nobody asks. */
    readonly backupMaxAgeHours: number;
  };
  readonly database: {
    /** Postgres URLs with their password, one for each host; undefined: SQLite in the data folder. */
    readonly urls: readonly string[] | undefined;
    /** The most connections. */
    readonly poolSize: number;
    /** For one statement, and for a connection. */
    readonly timeoutMs: number;
  };
  /** What several nodes share; undefined for a single node. */
  readonly redis: RedisAddress | undefined;
  /** Where the sources of large messages are kept. */
  readonly bodies: {
    /** Absolute path. */
    readonly folder: string;
    /** Absolute path, for those on their way into the bucket. */
    readonly spool: string;
    /** In place of the folder. */
    readonly bucket: BucketUrl | undefined;
  };
  readonly mailstore: { readonly kind: 'embedded' } | ImapMailstore;
  /** `ip`, `ip:port` or `[ip]:port`; none: the resolvers of the system. */
  readonly dns: { readonly servers: readonly string[] };
  /** Undefined members come from the generated secrets. */
  readonly credentials: {
    /** At least one. */
    readonly apiKeys: readonly string[] | undefined;
    /** The UTF-8 bytes of each are an HMAC key. */
    readonly mailserverWebhookSecret: readonly string[] | undefined;
  };
  readonly jwt: {
    /** The UTF-8 bytes of each are a key of HS256, the first one signs; undefined: the generated secret. */
    readonly secret: SigningKeys | undefined;
    /** PEM of a SubjectPublicKeyInfo; never together with `jwksUrl`. */
    readonly publicKey: string | undefined;
    readonly jwksUrl: string | undefined;
    /** Checked when set. */
    readonly issuer: string | undefined;
    /** Checked when set. */
    readonly audience: string | undefined;
    /** Name of the claim that holds the account's address. */
    readonly accountClaim: string;
  };
  /** Absolute paths of PEM files, both or neither. */
  readonly tls: { readonly cert: string | undefined; readonly key: string | undefined };
  readonly outbound: {
    /** The smarthost; undefined: direct to the MX hosts of each domain. */
    readonly relay: Server | undefined;
    /** TCP port of those MX hosts. */
    readonly mxPort: number;
    /** Private networks (`address/bits`) that webhooks may reach. */
    readonly allowCidrs: readonly string[];
  };
  /** The process beside a mail server (`src/notifier.ts`). */
  readonly notifier: {
    /** Absolute path of the folder that the mail server writes to. */
    readonly spool: string;
    /** Where change events are posted. */
    readonly url: string;
  };
  readonly senderChecks: {
    /** Refuse mail that fails a `p=reject` policy (RFC 7489 section 6.3). */
    readonly dmarcEnforce: boolean;
    /** Of the spam filter; undefined: there is none. */
    readonly rspamdUrl: string | undefined;
  };
  readonly sending: {
    /** Whether accounts may send. */
    readonly enabled: boolean;
    /** Recipients that one account may write to in 24 hours; 0: no limit. */
    readonly recipientsPerDay: number;
  };
}

/** Mail programs: two ports of one address. */
interface ProgramListener extends Listener {
  /** Where a connection begins with TLS; `port` is for STARTTLS. */
  readonly tlsPort: number;
  /** As for SMTP. */
  readonly proxyNetworks: readonly string[];
}

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
 * Other keys are ignored: the environment is shared. Slips in `.env` are in {@link Config.misspelt}.
 *
 * @param folder of `.env`, and of relative paths
 * @throws ConfigError with one line for each invalid key
 */
export function readConfig(env: NodeJS.ProcessEnv, folder: string = process.cwd()): Config {
  const file = readEnvFile(join(folder, '.env'));
  const lookup = (key: string) => (env[key]?.trim() ? env[key] : file[key]);
  const values = readSettings(lookup);
  const config = groupByPart(values, folder);
  refuseSharedPorts(portsOf(config));
  const misspelt = findMisspelt(Object.keys(file), configKeys);
  return deepFreeze({ ...config, shown: showSettings(lookup), misspelt });
}

function readEnvFile(path: string): NodeJS.Dict<string> {
  try {
    // parseEnv reads a byte order mark as part of the first name.
    return parseEnv(readFileSync(path, 'utf8').replace(/^\uFEFF/, ''));
  } catch (error) {
    if (isMissing(error)) return {};
    const line = problemLine('.env', 'a readable file', explainFileError(error));
    throw new ConfigError([line], { cause: error });
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

type Parts = Omit<Config, 'shown' | 'misspelt'>;

function groupByPart(values: Values, folder: string): Parts {
  const ownUrl = values.PUBLIC_URL ?? publicUrlOf(values.HOST, values.PORT);
  const absolute = (path: string | undefined) =>
    path === undefined ? undefined : resolve(folder, path);
  return {
    dataDir: resolve(folder, values.DATA_DIR),
    mailHostname: values.MAIL_HOSTNAME,
    spfInclude: values.SPF_INCLUDE ?? `spf.${values.MAIL_HOSTNAME}`,
    logLevel: values.LOG_LEVEL,
    http: {
      host: values.HOST,
      port: values.PORT,
      publicUrl: ownUrl,
      publicUrlGiven: values.PUBLIC_URL !== undefined,
      trustProxy: values.TRUST_PROXY,
      corsOrigins: values.CORS_ORIGINS,
      maxPerIp: values.HTTP_MAX_PER_IP,
      maxConnections: values.HTTP_MAX_CONNECTIONS,
    },
    webmail: { isOn: values.WEBMAIL, name: values.WEBMAIL_NAME, color: values.WEBMAIL_COLOR },
    smtp: {
      host: values.SMTP_HOST,
      port: values.SMTP_PORT,
      maxPerIp: values.SMTP_MAX_PER_IP,
      maxConnections: values.SMTP_MAX_CONNECTIONS,
      trustedNetworks: values.SMTP_TRUSTED_NETWORKS,
      proxyNetworks: values.SMTP_PROXY_NETWORKS,
    },
    lmtp: { host: values.LMTP_HOST, port: values.LMTP_PORT },
    ...programListeners(values),
    metrics: { host: values.METRICS_HOST, port: values.METRICS_PORT },
    drainSeconds: values.DRAIN_SECONDS,
    trace: { days: values.TRACE_DAYS, subjects: values.TRACE_SUBJECTS },
    limits: limitsOf(values),
    database: databaseOf(values),
    redis: values.REDIS_URL,
    bodies: placeBodies(values, resolve(folder, values.DATA_DIR)),
    mailstore: mailstoreOf(values, absolute),
    dns: { servers: values.DNS_SERVERS },
    credentials: {
      apiKeys: values.API_KEYS,
      mailserverWebhookSecret: values.MAILSERVER_WEBHOOK_SECRET,
    },
    jwt: {
      secret: values.JWT_SECRET,
      publicKey: values.JWT_PUBLIC_KEY,
      jwksUrl: values.JWT_JWKS_URL,
      issuer: values.JWT_ISSUER,
      audience: values.JWT_AUDIENCE,
      accountClaim: values.JWT_ACCOUNT_CLAIM,
    },
    tls: { cert: absolute(values.TLS_CERT), key: absolute(values.TLS_KEY) },
    outbound: {
      relay: values.SMTP_RELAY_URL,
      mxPort: values.MX_PORT,
      allowCidrs: values.OUTBOUND_ALLOW_CIDRS,
    },
    notifier: {
      spool: resolve(folder, values.NOTIFIER_SPOOL),
      url: values.NOTIFIER_URL ?? `${ownUrl}/hooks/mailserver`,
    },
    senderChecks: { dmarcEnforce: values.DMARC_ENFORCE, rspamdUrl: values.RSPAMD_URL },
    sending: {
      enabled: values.SEND_ENABLED,
      recipientsPerDay: values.SEND_RECIPIENTS_PER_DAY,
    },
  };
}

function programListeners(values: Values): Pick<Config, 'imap' | 'submission'> {
  return {
    imap: {
      host: values.IMAP_HOST ?? values.SMTP_HOST,
      tlsPort: values.IMAPS_PORT,
      port: values.IMAP_PORT,
      proxyNetworks: values.IMAP_PROXY_NETWORKS,
      disabled: values.IMAP_DISABLE,
    },
    submission: {
      host: values.SUBMISSION_HOST ?? values.SMTP_HOST,
      tlsPort: values.SUBMISSIONS_PORT,
      port: values.SUBMISSION_PORT,
      proxyNetworks: values.SUBMISSION_PROXY_NETWORKS,
    },
  };
}

function limitsOf(values: Values): Config['limits'] {
  return {
    ratePerMinute: values.RATE_LIMIT_PER_MINUTE,
    maxMessageBytes: values.MAX_MESSAGE_BYTES,
    quotaBytes: values.QUOTA_BYTES,
    trashDays: values.TRASH_DAYS,
    eventDays: values.EVENT_DAYS,
    deliveryBodyHours: values.DELIVERY_BODY_HOURS,
    bodyKeepHours: values.BODY_KEEP_HOURS,
    backupMaxAgeHours: values.BACKUP_MAX_AGE_HOURS,
  };
}

function databaseOf(values: Values): Config['database'] {
  return {
    urls: values.DATABASE_URL,
    poolSize: values.DATABASE_POOL_SIZE,
    timeoutMs: values.DATABASE_TIMEOUT_SECONDS * 1000,
  };
}

function mailstoreOf(
  { MAILSTORE_URL: server, LMTP_URL }: Values,
  absolute: (path: string | undefined) => string | undefined,
): Config['mailstore'] {
  if (server === 'embedded') return { kind: 'embedded' };
  return { kind: 'imap', ...server, ca: absolute(server.ca), deliverTo: LMTP_URL };
}

function placeBodies(values: Values, dataDir: string): Config['bodies'] {
  return {
    folder: join(dataDir, 'bodies'),
    spool: join(dataDir, 'spool'),
    bucket: values.S3_URL,
  };
}

function deepFreeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) deepFreeze(member);
    Object.freeze(value);
  }
  return value;
}
