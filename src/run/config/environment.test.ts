import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { promises as dns } from 'node:dns';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { ConfigError, configKeys, readConfig } from './config.ts';

const empty = mkdtempSync(join(tmpdir(), 'postroom-config-'));
after(() => rmSync(empty, { recursive: true }));

function folderWith(envFile: string): string {
  const folder = mkdtempSync(join(empty, 'env-'));
  writeFileSync(join(folder, '.env'), envFile);
  return folder;
}

/** The lines of the error, empty where the environment is accepted. */
function refusalOf(env: NodeJS.ProcessEnv, folder = empty): readonly string[] {
  try {
    readConfig(env, folder);
    return [];
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    assert.equal(error.message, error.lines.join('\n'));
    return error.lines;
  }
}

const keys = {
  rsa: generateKeyPairSync('rsa', { modulusLength: 2048 }),
  smallRsa: generateKeyPairSync('rsa', { modulusLength: 1024 }),
  ec: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  bitcoin: generateKeyPairSync('ec', { namedCurve: 'secp256k1' }),
  ed25519: generateKeyPairSync('ed25519'),
  x25519: generateKeyPairSync('x25519'),
};

function publicPem(pair: keyof typeof keys): string {
  return keys[pair].publicKey.export({ type: 'spki', format: 'pem' }).toString();
}

test('an empty environment gives the defaults', () => {
  const { shown, misspelt, ...config } = readConfig({}, empty);
  assert.deepEqual(misspelt, []);
  assert.equal(shown.length, configKeys.length);
  assert.deepEqual(config, {
    dataDir: join(empty, 'data'),
    mailHostname: 'mail.localhost',
    spfInclude: 'spf.mail.localhost',
    logLevel: 'info',
    http: {
      host: '127.0.0.1',
      port: 8080,
      publicUrl: 'http://127.0.0.1:8080',
      publicUrlGiven: false,
      trustProxy: [],
      corsOrigins: [],
      maxPerIp: 250,
      maxConnections: 10_000,
    },
    webmail: { isOn: true, name: 'Mail', color: undefined },
    smtp: {
      host: '127.0.0.1',
      port: 2525,
      maxPerIp: 20,
      maxConnections: 2_000,
      trustedNetworks: ['127.0.0.0/8', '::1/128'],
      proxyNetworks: [],
    },
    lmtp: { host: '127.0.0.1', port: 0 },
    imap: { host: '127.0.0.1', tlsPort: 0, port: 0, proxyNetworks: [], disabled: [] },
    submission: { host: '127.0.0.1', tlsPort: 0, port: 0, proxyNetworks: [] },
    metrics: { host: '127.0.0.1', port: 0 },
    drainSeconds: 0,
    trace: { days: 30, subjects: false },
    limits: {
      ratePerMinute: 60,
      maxMessageBytes: 52_428_800,
      quotaBytes: 0,
      trashDays: 0,
      eventDays: 7,
      deliveryBodyHours: 24,
      bodyKeepHours: 48,
      backupMaxAgeHours: 0,
    },
    database: { urls: undefined, poolSize: 20, timeoutMs: 8_000 },
    redis: undefined,
    bodies: {
      folder: join(empty, 'data/bodies'),
      spool: join(empty, 'data/spool'),
      bucket: undefined,
    },
    mailstore: { kind: 'embedded' },
    dns: { servers: [] },
    credentials: { apiKeys: undefined, mailserverWebhookSecret: undefined },
    jwt: {
      secret: undefined,
      publicKey: undefined,
      jwksUrl: undefined,
      issuer: undefined,
      audience: undefined,
      accountClaim: 'sub',
    },
    tls: { cert: undefined, key: undefined },
    outbound: { relay: undefined, mxPort: 25, allowCidrs: [] },
    notifier: {
      spool: '/var/spool/postroom',
      url: 'http://127.0.0.1:8080/hooks/mailserver',
    },
    senderChecks: { dmarcEnforce: true, rspamdUrl: undefined },
    sending: { enabled: true, recipientsPerDay: 500 },
  });
});

test('every key appears in its place', () => {
  const config = readConfig(
    {
      HOST: '0.0.0.0',
      PORT: '80',
      SMTP_HOST: '::',
      SMTP_PORT: '25',
      SMTP_MAX_PER_IP: '7',
      SMTP_MAX_CONNECTIONS: '70',
      SMTP_TRUSTED_NETWORKS: '192.0.2.9',
      SMTP_PROXY_NETWORKS: '10.0.0.0/8',
      LMTP_HOST: 'Localhost',
      LMTP_PORT: '24',
      IMAP_HOST: 'IMAP.example',
      IMAPS_PORT: '993',
      IMAP_PORT: '143',
      IMAP_PROXY_NETWORKS: '10.0.0.0/8',
      IMAP_DISABLE: 'qresync, Imap4rev2',
      SUBMISSION_HOST: 'Smtp.example',
      SUBMISSIONS_PORT: '465',
      SUBMISSION_PORT: '587',
      SUBMISSION_PROXY_NETWORKS: '10.1.0.0/16',
      DATA_DIR: '/srv/postroom',
      DATABASE_URL: 'postgresql://me:p%40ss@db,[::1]:5433/mail?sslmode=require',
      REDIS_URL: 'rediss://:p%2Fw@Redis.Example/2',
      DATABASE_POOL_SIZE: '30',
      DATABASE_TIMEOUT_SECONDS: '4',
      S3_URL: 'https://key:s%2Fcret%2B@s3.example.com:9000/mail-bodies?region=eu-central-1',
      API_KEYS: ' key-one-key-one-1 , key-two-key-two-2,',
      JWT_SECRET: `${'y'.repeat(32)}, ${'x'.repeat(32)}`,
      JWT_JWKS_URL: 'https://id.example.com/keys?tenant=1',
      JWT_ISSUER: 'https://id.example.com',
      JWT_AUDIENCE: 'mail',
      JWT_ACCOUNT_CLAIM: 'email',
      MAILSERVER_WEBHOOK_SECRET: 'h'.repeat(16),
      PUBLIC_URL: 'https://Mail.Example.com/postroom/',
      WEBMAIL: 'off',
      WEBMAIL_NAME: 'Acme post',
      WEBMAIL_COLOR: '#12AB34',
      MAIL_HOSTNAME: 'MX.Bücher.example.',
      SPF_INCLUDE: '_SPF.example.com',
      DNS_SERVERS: '1.1.1.1, 9.9.9.9:5353, 2606:4700::1111, [2606:4700::1001]:53',
      HTTP_MAX_PER_IP: '8',
      HTTP_MAX_CONNECTIONS: '80',
      RATE_LIMIT_PER_MINUTE: '0',
      TRUST_PROXY: '10.0.0.0/8, 192.0.2.1, FD00::/8, ::1',
      CORS_ORIGINS: 'https://App.example.com:8443, capacitor://localhost, *',
      MAX_MESSAGE_BYTES: '65536',
      QUOTA_BYTES: '1000',
      TRASH_DAYS: '30',
      BODY_KEEP_HOURS: '0',
      BACKUP_MAX_AGE_HOURS: '26',
      DELIVERY_BODY_HOURS: '48',
      MAILSTORE_URL:
        'imaps://master:s%2Fecret@IMAP.example.com?auth=plain&ca=tls/ca.pem&connections=9&programs=90&timeout=5',
      TLS_CERT: 'tls/cert.pem',
      TLS_KEY: '/etc/ssl/key.pem',
      SMTP_RELAY_URL: 'smtp://[2001:db8::1]',
      MX_PORT: '2526',
      LMTP_URL: 'lmtp://dove_cot',
      RSPAMD_URL: 'http://[::1]:11333/',
      DMARC_ENFORCE: 'OFF',
      SEND_ENABLED: 'no',
      SEND_RECIPIENTS_PER_DAY: '0',
      METRICS_HOST: '::',
      METRICS_PORT: '9090',
      DRAIN_SECONDS: '20',
      EVENT_DAYS: '3',
      TRACE_DAYS: '7',
      TRACE_SUBJECTS: 'true',
      OUTBOUND_ALLOW_CIDRS: '192.168.0.0/16',
      NOTIFIER_SPOOL: 'spool',
      NOTIFIER_URL: 'https://in.example.com/hooks/mailserver',
      LOG_LEVEL: 'Silent',
    },
    empty,
  );
  const { shown: _shown, misspelt: _misspelt, ...rest } = config;
  assert.deepEqual(rest, {
    dataDir: '/srv/postroom',
    mailHostname: 'mx.xn--bcher-kva.example',
    spfInclude: '_spf.example.com',
    logLevel: 'silent',
    http: {
      host: '0.0.0.0',
      port: 80,
      publicUrl: 'https://mail.example.com/postroom',
      publicUrlGiven: true,
      trustProxy: ['10.0.0.0/8', '192.0.2.1/32', 'fd00::/8', '::1/128'],
      corsOrigins: ['https://app.example.com:8443', 'capacitor://localhost', '*'],
      maxPerIp: 8,
      maxConnections: 80,
    },
    webmail: { isOn: false, name: 'Acme post', color: '#12ab34' },
    smtp: {
      host: '::',
      port: 25,
      maxPerIp: 7,
      maxConnections: 70,
      trustedNetworks: ['192.0.2.9/32'],
      proxyNetworks: ['10.0.0.0/8'],
    },
    lmtp: { host: 'localhost', port: 24 },
    imap: {
      host: 'imap.example',
      tlsPort: 993,
      port: 143,
      proxyNetworks: ['10.0.0.0/8'],
      disabled: ['QRESYNC', 'IMAP4REV2'],
    },
    submission: {
      host: 'smtp.example',
      tlsPort: 465,
      port: 587,
      proxyNetworks: ['10.1.0.0/16'],
    },
    metrics: { host: '::', port: 9090 },
    drainSeconds: 20,
    trace: { days: 7, subjects: true },
    limits: {
      ratePerMinute: 0,
      maxMessageBytes: 65_536,
      quotaBytes: 1_000,
      trashDays: 30,
      eventDays: 3,
      deliveryBodyHours: 48,
      bodyKeepHours: 0,
      backupMaxAgeHours: 26,
    },
    database: {
      urls: [
        'postgresql://me:p%40ss@db/mail?sslmode=verify-full',
        'postgresql://me:p%40ss@[::1]:5433/mail?sslmode=verify-full',
      ],
      poolSize: 30,
      timeoutMs: 4_000,
    },
    redis: {
      host: 'redis.example',
      port: 6379,
      tls: true,
      user: undefined,
      password: 'p/w',
      database: 2,
    },
    bodies: {
      folder: '/srv/postroom/bodies',
      spool: '/srv/postroom/spool',
      bucket: {
        endpoint: 'https://s3.example.com:9000',
        bucket: 'mail-bodies',
        region: 'eu-central-1',
        accessKeyId: 'key',
        secretAccessKey: 's/cret+',
      },
    },
    mailstore: {
      kind: 'imap',
      host: 'imap.example.com',
      port: 993,
      implicitTls: true,
      login: { user: 'master', password: 's/ecret' },
      auth: 'plain',
      separator: '*',
      tls: 'verify',
      ca: join(empty, 'tls/ca.pem'),
      connections: 9,
      programs: 90,
      timeout: 5,
      deliverTo: { host: 'dove_cot', port: 24 },
    },
    dns: { servers: ['1.1.1.1', '9.9.9.9:5353', '2606:4700::1111', '[2606:4700::1001]:53'] },
    credentials: {
      apiKeys: ['key-one-key-one-1', 'key-two-key-two-2'],
      mailserverWebhookSecret: ['h'.repeat(16)],
    },
    jwt: {
      secret: ['y'.repeat(32), 'x'.repeat(32)],
      publicKey: undefined,
      jwksUrl: 'https://id.example.com/keys?tenant=1',
      issuer: 'https://id.example.com',
      audience: 'mail',
      accountClaim: 'email',
    },
    tls: { cert: join(empty, 'tls/cert.pem'), key: '/etc/ssl/key.pem' },
    outbound: {
      relay: { host: '2001:db8::1', port: 587, implicitTls: false, login: undefined },
      mxPort: 2526,
      allowCidrs: ['192.168.0.0/16'],
    },
    notifier: { spool: join(empty, 'spool'), url: 'https://in.example.com/hooks/mailserver' },
    senderChecks: { dmarcEnforce: false, rspamdUrl: 'http://[::1]:11333' },
    sending: { enabled: false, recipientsPerDay: 0 },
  });
  // The library that gets a resolver must accept it as one.
  new dns.Resolver().setServers(config.dns.servers);
});

test('the configuration is deeply frozen', () => {
  const env = { API_KEYS: 'key-one-key-one-1', SMTP_RELAY_URL: 'smtp://a:b@c' };
  const unfrozen: string[] = [];
  const visit = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null) return;
    if (!Object.isFrozen(value)) unfrozen.push(path);
    for (const [name, member] of Object.entries(value)) visit(member, `${path}.${name}`);
  };
  visit(readConfig(env, empty), 'config');
  assert.deepEqual(unfrozen, []);
});

const serverForm = 'embedded, or imaps://user:password@host:993 (imap: for STARTTLS)';
const relayForm = 'smtp://user:password@host:587 or smtps://user:password@host:465';
const redisForm =
  'redis://user:password@host:6379 or rediss:// for TLS, with /number where the database is not 0';
const lmtpForm = 'lmtp://host:24 with a port other than 25';
const databaseForm = 'postgres://user:password@host:5432/database';
const bucketForm =
  'https://KEY:SECRET@host/bucket?region=us-east-1 (http: for a local server; a bucket has a name of 3 to 63 small letters, digits, dots and dashes)';
const webForm = 'an http or https URL without credentials and query';
const encoded = 'a URL whose user and password have / ? # @ percent-encoded';
const fullName = 'a full host name such as mail.example.com';
const hostForm = 'an IP address or a host name';
const keyForm = 'a public key in PEM: RSA of 2048 bits or more, EC P-256/384/521, or Ed25519';
const networks = 'a comma-separated list of networks such as 10.0.0.0/8 or fd00::/8';
const resolvers =
  'system, or a comma-separated list of resolvers such as 1.1.1.1, 1.1.1.1:53 or ' +
  '[2606:4700::1111]:53';
const origins = 'none, or a comma-separated list of origins such as https://app.example.com, or *';
const shortForm = 'at most 255 characters without control characters';
const portForm = 'a port number from 0 to 65535';
const apiKeys = 'comma-separated keys of at least 16 characters each';
const urlForm = 'an http or https URL without credentials';
const rspamdForm = 'http://host:11333 without a path or credentials';
const secretForm = 'at least 32 characters (each, if there are several values separated by commas)';
const hookSecretForm =
  'at least 16 characters (each, if there are several values separated by commas)';
const visibleKeys = 'keys of at most 255 visible ASCII characters each';
const onlyPostgres = 'no options but those of PostgreSQL, such as sslmode=verify-full';
const sslModes =
  'sslmode to be one of disable, allow, prefer, require, verify-ca, verify-full, no-verify';
const serverOptions = 'only the options auth, separator, tls, ca, connections, programs, timeout';

/** Key, an invalid value, the expected form in the line, and what was found where that is not the value. */
const badValues: readonly (readonly [string, string, string, string?])[] = [
  ['HOST', 'http://0.0.0.0', hostForm],
  ['HOST', '1.2.3.256', hostForm],
  ['HOST', '-a.example', hostForm],
  ['HOST', `${'a'.repeat(64)}.example`, hostForm, 'a text of 72 characters'],
  ['PORT', '65536', portForm],
  ['PORT', '-1', portForm],
  ['PORT', '80.5', portForm],
  ['PORT', '0x50', portForm],
  ['SMTP_HOST', 'a b', hostForm],
  ['SMTP_PORT', 'smtp', portForm],
  ['SMTP_MAX_PER_IP', '0', 'a whole number from 1 to 65535'],
  ['SMTP_MAX_CONNECTIONS', '-1', 'a whole number from 1 to 65535'],
  ['SMTP_TRUSTED_NETWORKS', 'localhost', `none, or ${networks}`],
  ['SMTP_PROXY_NETWORKS', 'localhost', `none, or ${networks}`],
  ['IMAP_HOST', '[::1]', hostForm],
  ['IMAPS_PORT', '65536', portForm],
  ['IMAP_PORT', '1e3', portForm],
  ['IMAP_PROXY_NETWORKS', 'localhost', `none, or ${networks}`],
  ['IMAP_DISABLE', 'a b', 'none, or a comma-separated list of extensions such as QRESYNC'],
  ['SUBMISSION_HOST', '[::1]', hostForm],
  ['SUBMISSIONS_PORT', '65536', portForm],
  ['SUBMISSION_PORT', '1e3', portForm],
  ['SUBMISSION_PROXY_NETWORKS', 'localhost', `none, or ${networks}`],
  ['LMTP_HOST', '[::1]', hostForm],
  ['LMTP_PORT', '25', 'a port number other than 25, which is SMTP only'],
  ['LMTP_PORT', '1e3', portForm],
  ['DATA_DIR', 'a\0b', 'a path', 'a text that is no path'],
  ['NOTIFIER_SPOOL', '-----BEGIN PRIVATE KEY-----\nMIGH', 'a path', 'a text that is no path'],
  ['DATABASE_URL', 'mysql://me:pw@db/mail', databaseForm, '"mysql://***@db/mail"'],
  ['DATABASE_URL', 'postgres:me:pw@db', databaseForm, '"postgres://..."'],
  ['DATABASE_URL', 'pw', databaseForm, 'a text that is no URL'],
  ['DATABASE_URL', 'postgres://me:p/w@db/mail', databaseForm, '"postgres://..."'],
  ['DATABASE_URL', 'postgres://me:1#2@db/mail', encoded, '"postgres://..."'],
  ['DATABASE_URL', 'postgres://me:1?2@db/mail', encoded, '"postgres://..."'],
  ['DATABASE_URL', 'postgres://me:pw@a:5432,/mail', databaseForm, '"postgres://..."'],
  [
    'DATABASE_URL',
    'postgres://me:pw@a,b/mail?target_session_attrs=standby',
    'target_session_attrs=read-write, or none',
    'another value',
  ],
  ['DATABASE_URL', 'postgres://me:pw@db/mail?sslmod=require', onlyPostgres, 'another'],
  ['DATABASE_URL', 'postgres://me:pw@db/mail?sslmode=required', sslModes, 'another value'],
  ['DATABASE_POOL_SIZE', '1', 'a whole number from 2 to 1000'],
  ['DATABASE_TIMEOUT_SECONDS', '0', 'a whole number from 1 to 600'],
  ['S3_URL', 'ftp://key:pw@host/bucket', bucketForm, '"ftp://***@host/bucket"'],
  ['S3_URL', 'https://host/bucket', bucketForm, '"https://host/bucket"'],
  ['S3_URL', 'https://key:pw@host', bucketForm, '"https://***@host/"'],
  ['S3_URL', 'https://key:pw@host/Bucket', bucketForm, '"https://***@host/Bucket"'],
  ['S3_URL', 'https://key:pw@host/a/b', bucketForm, '"https://***@host/a/b"'],
  ['S3_URL', 'https://key:p/w@host/bucket', bucketForm, '"https://..."'],
  ['S3_URL', 'https://key:1/w@host/bucket', encoded, '"https://..."'],
  ['S3_URL', 'https://key:pw@host/bucket?acl=x', 'no other option than region', 'another'],
  ['S3_URL', 'https://k:pw@h/bucket?region=a b', 'region to be one like us-east-1', 'another'],
  ['API_KEYS', 'long-enough-for-a-key,short', apiKeys, 'one of 5 characters'],
  ['API_KEYS', ',', apiKeys, 'one of 0 characters'],
  [
    'API_KEYS',
    'long-enough-for-a-key,long-enough-for-a-key',
    'different keys',
    'one of them twice',
  ],
  [
    'API_KEYS',
    'with a space in the key',
    visibleKeys,
    'a key that is longer or has other characters',
  ],
  ['JWT_SECRET', 'x'.repeat(31), secretForm, '31 characters'],
  ['JWT_SECRET', `${'x'.repeat(32)},short`, secretForm, '5 characters'],
  ['JWT_SECRET', `${'x'.repeat(32)},${'x'.repeat(32)}`, 'different values', 'one of them twice'],
  ['JWT_PUBLIC_KEY', 'ssh-ed25519 AAAA', keyForm, 'text that is not such a key'],
  ['JWT_PUBLIC_KEY', publicPem('smallRsa'), keyForm, 'a key of another kind'],
  ['JWT_PUBLIC_KEY', publicPem('bitcoin'), keyForm, 'a key of another kind'],
  ['JWT_PUBLIC_KEY', publicPem('x25519'), keyForm, 'a key of another kind'],
  [
    'JWT_PUBLIC_KEY',
    keys.ec.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    keyForm,
    'a private key',
  ],
  ['NOTIFIER_URL', 'hooks/mailserver', urlForm, 'a text that is no URL'],
  ['JWT_JWKS_URL', 'file:///etc/keys', urlForm, '"file://..."'],
  [
    'JWT_JWKS_URL',
    'https://me:pw@id.example.com/keys',
    urlForm,
    '"https://***@id.example.com/keys"',
  ],
  ['JWT_ISSUER', 'a\u0007b', shortForm, '"a\\u0007b"'],
  ['JWT_AUDIENCE', 'a'.repeat(256), shortForm, 'a text of 256 characters'],
  ['JWT_ACCOUNT_CLAIM', 'a\u007fb', shortForm, '"a\\u007fb"'],
  ['RSPAMD_URL', 'http://me:pw@host:11333', rspamdForm, '"http://***@host:11333/"'],
  ['RSPAMD_URL', 'http://host:11333/checkv2', rspamdForm, '"http://host:11333/checkv2"'],
  ['MAILSERVER_WEBHOOK_SECRET', 'short', hookSecretForm, '5 characters'],
  ['WEBMAIL', 'perhaps', 'true or false', '"perhaps"'],
  ['WEBMAIL_NAME', 'a\u0007b', shortForm, '"a\\u0007b"'],
  ['WEBMAIL_COLOR', 'red', 'a colour as #rrggbb', '"red"'],
  ['PUBLIC_URL', 'mail.example.com', webForm, 'a text that is no URL'],
  ['PUBLIC_URL', 'http:/mail.example.com', webForm, '"http://mail.example.com/"'],
  ['PUBLIC_URL', 'ftp://mail.example.com/a', webForm, '"ftp://mail.example.com/a"'],
  ['PUBLIC_URL', 'https://mail.example.com/?a=b', webForm, '"https://mail.example.com/"'],
  ['MAIL_HOSTNAME', 'mail', fullName],
  ['MAIL_HOSTNAME', '192.0.2.1', fullName],
  ['MAIL_HOSTNAME', 'my_mail.test', fullName],
  ['MAIL_HOSTNAME', 'my_mail.example.com', fullName, 'a text of 19 characters'],
  ['MAIL_HOSTNAME', 'mail..test', fullName],
  ['MAIL_HOSTNAME', `${'a.'.repeat(126)}aaa`, fullName, 'a text of 255 characters'],
  ['SPF_INCLUDE', 'include:a.test', fullName],
  ['DNS_SERVERS', 'dns.example.com', resolvers],
  ['DNS_SERVERS', '1.1.1.1:0', resolvers],
  ['DNS_SERVERS', '1.1.1.1:65536', resolvers],
  ['DNS_SERVERS', '[1.1.1.1]:53', resolvers],
  ['DNS_SERVERS', '[fe80::1%lo]:53', resolvers],
  ['DNS_SERVERS', '1.1.1.1,::1:::', resolvers],
  ['HTTP_MAX_PER_IP', '0', 'a whole number from 1 to 65535'],
  ['HTTP_MAX_CONNECTIONS', 'all', 'a whole number from 1 to 1000000'],
  ['RATE_LIMIT_PER_MINUTE', 'none', 'a whole number from 0 to 1000000'],
  ['TRUST_PROXY', 'true', `off, or ${networks}`],
  ['TRUST_PROXY', '10.0.0.0/33', `off, or ${networks}`],
  ['TRUST_PROXY', '10.1/16', `off, or ${networks}`],
  ['TRUST_PROXY', '010.0.0.0/8', `off, or ${networks}`],
  ['TRUST_PROXY', 'fe80::1%eth0/64', `off, or ${networks}`],
  ['CORS_ORIGINS', 'app.example.com', origins],
  ['CORS_ORIGINS', 'https://a.b/path', origins, 'a text of 16 characters'],
  ['CORS_ORIGINS', 'https://*.test:x', origins, 'a text of 16 characters'],
  ['MAX_MESSAGE_BYTES', '50MB', 'a number of bytes from 65536 to 268435456'],
  ['MAX_MESSAGE_BYTES', '65535', 'a number of bytes from 65536 to 268435456'],
  ['QUOTA_BYTES', '10GB', 'a number of bytes from 0 to 999999999999999'],
  ['TRASH_DAYS', '-1', 'a number of days from 0 to 3650'],
  ['BODY_KEEP_HOURS', '8761', 'a number of hours from 0 to 8760'],
  ['BACKUP_MAX_AGE_HOURS', '1d', 'a number of hours from 0 to 8760'],
  ['DELIVERY_BODY_HOURS', '0', 'a number of hours from 1 to 720'],
  ['MAILSTORE_URL', 'maildir:///var/mail', serverForm, '"maildir://..."'],
  ['MAILSTORE_URL', 'imaps://imap.example.com', serverForm, '"imaps://imap.example.com"'],
  ['MAILSTORE_URL', 'imaps://me@imap.example.com', serverForm, '"imaps://***@imap.example.com"'],
  ['MAILSTORE_URL', 'imap://me:%zz@imap.example', serverForm, '"imap://***@imap.example"'],
  [
    'MAILSTORE_URL',
    'imap://me:pw@imap.example?tls=no',
    'tls to be one of verify, insecure, off',
    'another value',
  ],
  [
    'MAILSTORE_URL',
    'imap://me:pw@imap.example?separator=ab',
    'separator to be one character',
    'another value',
  ],
  ['MAILSTORE_URL', 'imap://me:pw@imap.example?pool=3', serverOptions, 'another'],
  [
    'MAILSTORE_URL',
    'imaps://me:pw@imap.example?tls=off',
    'imap: instead of imaps: together with tls=off',
    'both',
  ],
  [
    'MAILSTORE_URL',
    'imap://me:pw@imap.example/INBOX',
    serverForm,
    '"imap://***@imap.example/INBOX"',
  ],
  ['SMTP_RELAY_URL', 'http://me:pw@relay.example', relayForm, '"http://***@relay.example/"'],
  ['REDIS_URL', 'http://redis.example', redisForm, '"http://redis.example/"'],
  ['REDIS_URL', 'redis.example:6379', redisForm, '"redis.example://..."'],
  ['REDIS_URL', 'redis://', redisForm, '"redis://..."'],
  ['REDIS_URL', 'redis://redis.example:0', redisForm, '"redis://redis.example:0"'],
  ['REDIS_URL', 'redis://redis.example/mail', redisForm, '"redis://redis.example/mail"'],
  ['REDIS_URL', 'redis://redis.example/-1', redisForm, '"redis://redis.example/-1"'],
  ['REDIS_URL', 'redis://redis.example?db=1', redisForm, '"redis://redis.example"'],
  ['REDIS_URL', 'redis://me@redis.example', redisForm, '"redis://***@redis.example"'],
  ['REDIS_URL', 'redis://me:1/2@redis.example', encoded, '"redis://..."'],
  ['REDIS_URL', 'unix:///run/redis.sock', redisForm, '"unix://..."'],
  ['SMTP_RELAY_URL', 'smtp://', relayForm, '"smtp://..."'],
  ['SMTP_RELAY_URL', 'smtp://:pw@relay.example', relayForm, '"smtp://***@relay.example"'],
  ['SMTP_RELAY_URL', 'smtp://relay.example:0', relayForm, '"smtp://relay.example:0"'],
  ['SMTP_RELAY_URL', 'smtp://a:1/2@relay.example', encoded, '"smtp://..."'],
  ['MX_PORT', '0', 'a port number from 1 to 65535'],
  ['LMTP_URL', 'lmtp://host:25', lmtpForm, '"lmtp://host:25"'],
  ['LMTP_URL', 'lmtp://me:pw@host', lmtpForm, '"lmtp://***@host"'],
  ['LMTP_URL', 'host:24', lmtpForm, '"host://..."'],
  ['DMARC_ENFORCE', 'maybe', 'true or false'],
  ['SEND_ENABLED', 'maybe', 'true or false'],
  ['SEND_RECIPIENTS_PER_DAY', '-1', 'a whole number from 0 to 1000000'],
  ['METRICS_HOST', 'a b', hostForm],
  ['METRICS_PORT', '99999', portForm],
  ['EVENT_DAYS', '0', 'a number of days from 1 to 365'],
  ['TRACE_SUBJECTS', 'maybe', 'true or false'],
  ['TRACE_DAYS', '-1', 'a whole number from 0 to 3650'],
  ['DRAIN_SECONDS', '601', 'a whole number from 0 to 600'],
  ['OUTBOUND_ALLOW_CIDRS', 'localhost', `none, or ${networks}`],
  ['LOG_LEVEL', 'verbose', 'one of trace, debug, info, warn, error, fatal, silent'],
];

describe('values that are not valid', () => {
  for (const [key, value, expected, got = JSON.stringify(value)] of badValues) {
    test(`${key}=${JSON.stringify(value).slice(0, 60)}`, () => {
      assert.deepEqual(refusalOf({ [key]: value }), [`${key}: expected ${expected}, got ${got}`]);
    });
  }

  test('each key that can be wrong is in the table', () => {
    const tried = new Set(badValues.map(([key]) => key));
    const anyText = ['TLS_CERT', 'TLS_KEY'];
    assert.deepEqual(
      configKeys.filter((key) => !tried.has(key)),
      anyText,
    );
  });

  test('all problems are reported at once', () => {
    const env = { PORT: 'x', HOST: '?', TLS_KEY: 'k', JWT_PUBLIC_KEY: 'k', JWT_JWKS_URL: 'u' };
    assert.deepEqual(
      refusalOf(env).map((line) => line.replace(/:.*/, '')),
      ['HOST', 'PORT', 'JWT_PUBLIC_KEY', 'JWT_JWKS_URL', 'JWT_JWKS_URL', 'TLS_CERT'],
    );
  });

  test('keys that cannot be set together', () => {
    assert.deepEqual(refusalOf({ TLS_CERT: 'a' }), [
      'TLS_KEY: expected the file of the key for TLS_CERT, got nothing',
    ]);
    assert.deepEqual(refusalOf({ TLS_KEY: 'a' }), [
      'TLS_CERT: expected the file of the certificate for TLS_KEY, got nothing',
    ]);
    const env = { JWT_PUBLIC_KEY: publicPem('ec'), JWT_JWKS_URL: 'https://id.example.com/' };
    assert.deepEqual(refusalOf(env), [
      'JWT_JWKS_URL: expected only one of JWT_PUBLIC_KEY and JWT_JWKS_URL, got both',
    ]);
    for (const more of [{}, { MAILSTORE_URL: 'embedded' }]) {
      assert.deepEqual(refusalOf({ LMTP_URL: 'lmtp://host', ...more }), [
        'MAILSTORE_URL: expected the IMAP server that LMTP_URL brings mail to, got embedded',
      ]);
    }
  });

  test('no line repeats a secret, in any form', () => {
    const secretKeys = configKeys.filter((key) => /KEY|SECRET|URL/.test(key));
    const part = fc.string({ maxLength: 6, unit: 'grapheme-ascii' });
    const schemes = 'postgres redis imaps smtp lmtp http https other'.split(' ');
    fc.assert(
      fc.property(
        fc.constantFrom(...secretKeys),
        fc.constantFrom(...schemes),
        part,
        part,
        (key, name, before, behind) => {
          const isUrl = key.endsWith('_URL');
          const secret = `${before}s3cr3t${behind}`;
          const value = isUrl ? `${name}://user:${secret}@db.example/x` : secret;
          for (const line of refusalOf({ [key]: value })) {
            assert.ok(!line.toLowerCase().includes('s3cr3t'), line);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test('no key repeats a secret that was meant for another', () => {
    const url = 'redis://:s3cr3t@h';
    const pem = `-----BEGIN PRIVATE KEY-----\ns3cr3t\n`;
    for (const secret of [
      's3cr3t0123456789',
      's3cr3t-0123456789:x',
      'a s3cr3t! with signs',
      url,
      pem,
    ]) {
      for (const key of configKeys) {
        for (const line of refusalOf({ [key]: secret })) assert.doesNotMatch(line, /s3cr3t/i);
      }
    }
  });

  test('any text is either accepted or refused in one line', () => {
    const text = fc.string({ unit: anyCharacter });
    fc.assert(
      fc.property(fc.constantFrom(...configKeys), text, (key, value) => {
        for (const line of refusalOf({ [key]: value }))
          assert.match(line, /^[A-Z0-9_]+: [^\n\r]*$/);
      }),
      { numRuns: 500 },
    );
  });
});

describe('public keys', () => {
  for (const pair of ['rsa', 'ec', 'ed25519'] as const) {
    test(`${pair}, with line breaks or with \\n for them`, () => {
      const pem = publicPem(pair);
      for (const text of [pem, pem.replaceAll('\n', '\\n'), pem.replaceAll('\n', '\\r\\n')]) {
        assert.equal(readConfig({ JWT_PUBLIC_KEY: text }, empty).jwt.publicKey, pem);
      }
    });
  }

  test('the older PKCS #1 form becomes a SubjectPublicKeyInfo', () => {
    const pem = keys.rsa.publicKey.export({ type: 'pkcs1', format: 'pem' }).toString();
    assert.equal(readConfig({ JWT_PUBLIC_KEY: pem }, empty).jwt.publicKey, publicPem('rsa'));
  });
});

describe('the default public URL', () => {
  const cases = [
    [{ HOST: '0.0.0.0', PORT: '81' }, 'http://localhost:81'],
    [{ HOST: '::' }, 'http://localhost:8080'],
    [{ HOST: '0:0:0:0:0:0:0:0' }, 'http://localhost:8080'],
    [{ HOST: '::1' }, 'http://[::1]:8080'],
    [{ HOST: 'fe80::1%eth0' }, 'http://[fe80::1]:8080'],
    [{ HOST: 'Api.Example.com' }, 'http://api.example.com:8080'],
  ] as const;
  for (const [env, url] of cases) {
    test(url, () => {
      const { http } = readConfig(env, empty);
      assert.deepEqual([http.publicUrl, http.publicUrlGiven], [url, false]);
      assert.ok(URL.canParse(url));
    });
  }
});

test('each port is listened on once, unless it is on another address', () => {
  const same = { PORT: '1000', SMTP_PORT: '1000', IMAPS_PORT: '993', IMAP_PORT: '993' };
  assert.deepEqual(refusalOf({ ...same, HOST: '127.0.0.1' }, empty), [
    'SMTP_PORT: expected a port of its own, got 1000, which PORT has',
    'IMAP_PORT: expected a port of its own, got 993, which IMAPS_PORT has',
  ]);
  const apart = { PORT: '1000', SMTP_PORT: '1000', HOST: '192.0.2.1', SMTP_HOST: '192.0.2.2' };
  assert.equal(readConfig(apart, empty).smtp.port, 1000);
});

describe('.env', () => {
  test('is read, and the environment wins over it', () => {
    const folder = folderWith('PORT=1000\nSMTP_PORT=1001\n');
    const config = readConfig({ SMTP_PORT: '2001' }, folder);
    assert.deepEqual([config.http.port, config.smtp.port], [1000, 2001]);
  });

  test('a blank value counts as absent in both', () => {
    const folder = folderWith('PORT=1000\nSMTP_PORT=\nLOG_LEVEL="  "\n');
    const config = readConfig({ PORT: '', LMTP_PORT: ' ' }, folder);
    assert.deepEqual(
      [config.http.port, config.smtp.port, config.lmtp.port, config.logLevel],
      [1000, 2525, 0, 'info'],
    );
  });

  test('may begin with a byte order mark and end lines with CRLF', () => {
    assert.equal(readConfig({}, folderWith('\uFEFFPORT=1000\r\nHOST=::1\r\n')).http.port, 1000);
  });

  test('names that are nearly a setting are told, others may be there', () => {
    const folder = folderWith('SMTP_PROT=1\nimap_ports=2\nCOMPOSE_FILE=x\nHOME=x\nPORT=1000\n');
    const env = {
      DATABSE_URL: 'x',
      S3URL: 'x',
      DB_PORT: '1',
      SSL_CERT: 'x',
      HOSTNAME: 'x',
      HOME: 'x',
    };
    assert.deepEqual(readConfig(env, folder).misspelt, [
      'DATABSE_URL is no setting: did you mean DATABASE_URL?',
      'S3URL is no setting: did you mean S3_URL?',
      '.env: SMTP_PROT is no setting: did you mean SMTP_PORT?',
      '.env: imap_ports is no setting: did you mean IMAPS_PORT?',
    ]);
  });

  test('its values are checked like the others', () => {
    assert.deepEqual(refusalOf({}, folderWith('PORT=x\n')), [
      'PORT: expected a port number from 0 to 65535, got "x"',
    ]);
  });

  test('takes a public key over several lines', () => {
    const folder = folderWith(`JWT_PUBLIC_KEY="${publicPem('ec')}"\n`);
    assert.equal(readConfig({}, folder).jwt.publicKey, publicPem('ec'));
  });

  test('stops the start when it is there and cannot be read', () => {
    const folder = mkdtempSync(join(empty, 'env-'));
    mkdirSync(join(folder, '.env'));
    assert.deepEqual(refusalOf({}, folder), [
      `${join(folder, '.env')}: expected a readable file, got EISDIR: illegal operation on a directory`,
    ]);
  });
});

test('a secret is shown only as set', () => {
  const secret = 'Tr0ub4dor-and-3-horses-and-staples';
  const hidden = {
    DATABASE_URL: `postgres://postroom:${secret}@db/postroom`,
    REDIS_URL: `redis://:${secret}@cache:6379`,
    API_KEYS: secret,
    JWT_SECRET: secret,
    MAILSERVER_WEBHOOK_SECRET: secret,
    SMTP_RELAY_URL: `smtp://user:${secret}@relay:587`,
    S3_URL: `https://KEY:${secret}@s3.example.com/mail?region=eu`,
  };
  const { shown } = readConfig({ ...hidden, SMTP_PORT: '2626' }, empty);
  const text = JSON.stringify(shown);
  for (let at = 0; at + 8 <= secret.length; at += 8) {
    assert.ok(!text.includes(secret.slice(at, at + 8)), text);
  }
  const found = (key: string) => shown.find((one) => one.key === key);
  for (const key of Object.keys(hidden)) {
    assert.deepEqual(found(key), { key, isSet: true, isHidden: true });
  }
  assert.deepEqual(found('SMTP_PORT'), {
    key: 'SMTP_PORT',
    isSet: true,
    isHidden: false,
    value: '2626',
  });
  assert.equal(found('LOG_LEVEL')?.isSet, false);
  assert.equal(found('LOG_LEVEL')?.value, 'info');
  // A new key with a name like this is secret, or must be listed here.
  const open = ['PUBLIC_URL', 'TLS_KEY', 'RSPAMD_URL'];
  for (const { key, isHidden } of shown) {
    if (/SECRET|KEY|URL|PASSWORD|TOKEN/.test(key) && !open.includes(key)) assert.ok(isHidden, key);
  }
});

test('a bucket of s3: is one of https:', () => {
  const { bodies } = readConfig({ S3_URL: 's3://key:pw@S3.example.com/bucket' }, '/nowhere');
  assert.equal(bodies.bucket?.endpoint, 'https://s3.example.com');
});
