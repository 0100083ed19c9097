import { ImapFlow } from 'imapflow';

/** A mail program of an account, over TLS. */
export function programOf(
  port: number,
  { address: user, password: pass }: { readonly address: string; readonly password: string },
): ImapFlow {
  return new ImapFlow({
    ...{ host: '127.0.0.1', port, secure: true, tls: { rejectUnauthorized: false } },
    ...{ auth: { user, pass }, logger: false },
  });
}
