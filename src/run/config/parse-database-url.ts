/** Reads the URL of PostgreSQL. Pure, no I/O. */

import { found, unencoded } from './parse-urls.ts';
import { fit, type Parse, unfit } from './parse-values.ts';

/**
 * Options of a database's URL: those of libpq, which refuses others, too, and those of the library alone. After a slip in
 * `sslmode`, a connection would have no TLS.
 */
const OPTIONS = new Set(
  `application_name channel_binding client_encoding connect_timeout dbname fallback_application_name gssdelegation
  gssencmode gsslib host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname
  load_balance_hosts max_protocol_version min_protocol_version options passfile password port replication require_auth
  requirepeer requiressl service ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode sslcompression
  sslcrl sslcrldir sslkey sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert sslsni target_session_attrs
  tcp_user_timeout user
  encoding idle_in_transaction_session_timeout lock_timeout query_timeout ssl statement_timeout uselibpqcompat`.split(
    /\s+/,
  ),
);

/** Those of libpq, and one of the library that accepts any certificate. */
const SSL_MODES = [
  'disable',
  'allow',
  'prefer',
  'require',
  'verify-ca',
  'verify-full',
  'no-verify',
];
/** The library checks the certificate in these as in verify-full, and warns that its next version will not. */
const CHECKED_AS_FULL = /([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/;

/**
 * The URLs of PostgreSQL: one for each host. Several hosts are written in one URL as in libpq,
 * `postgres://user@a:5432,b:5432/database?target_session_attrs=read-write`; the host that can be written to is always
 * searched, so no other `target_session_attrs` is accepted.
 */
export const databaseUrl: Parse<readonly string[]> = (text) => {
  const expected = 'postgres://user:password@host:5432/database';
  const [, before = '', hosts = '', after = ''] =
    /^(\w+:\/\/(?:[^/?#@]*@)?)([^/?#@]*)(.*)$/s.exec(text) ?? [];
  const texts = hosts.split(',').map((host) => `${before}${host}${after}`);
  for (const one of texts) {
    const url = URL.parse(one);
    if (!url || !['postgres:', 'postgresql:'].includes(url.protocol)) {
      return unfit(expected, found(text));
    }
    if (url.hash !== '' || `${url.pathname}${url.search}`.includes('@')) return unencoded(text);
    const options = url.searchParams;
    if ([...options.keys()].some((name) => !OPTIONS.has(name))) {
      return unfit('no options but those of PostgreSQL, such as sslmode=verify-full', 'another');
    }
    if (!SSL_MODES.includes(options.get('sslmode') ?? 'disable')) {
      return unfit(`sslmode to be one of ${SSL_MODES.join(', ')}`, 'another value');
    }
    const wanted = options.get('target_session_attrs') ?? 'read-write';
    if (!['read-write', 'primary'].includes(wanted)) {
      return unfit('target_session_attrs=read-write, or none', 'another value');
    }
    if (texts.length > 1 && url.hostname === '') return unfit(expected, found(text));
  }
  if (/[?&]uselibpqcompat=true(?:&|$)/.test(after)) return fit(texts);
  return fit(texts.map((one) => one.replace(CHECKED_AS_FULL, '$1verify-full')));
};
