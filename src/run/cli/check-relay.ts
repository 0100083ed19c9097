/** The check of the doctor that signs in to the relay for outgoing mail, as a send does. */
import { oneLine } from '../../protocols/message/message.ts';
import {
  enhancedOf,
  SmtpConnection,
  SmtpFailure,
} from '../../protocols/smtp-client/smtp-client.ts';
import type { Config } from '../config/config.ts';
import { CONNECT_MS, failed, ok, type Verdict } from './check-stores.ts';

/** Opens a session and ends it: nothing is sent. @param hostname ours, for EHLO */
export async function checkRelay(
  { host, port, implicitTls, login }: NonNullable<Config['outbound']['relay']>,
  hostname: string,
): Promise<Verdict> {
  const encrypted = login ? 'required' : 'offered';
  const options = {
    ...({ protocol: 'smtp', hostname, name: host, login } as const),
    tls: implicitTls ? 'implicit' : encrypted,
    timeouts: { connect: CONNECT_MS, reply: CONNECT_MS, message: CONNECT_MS },
  } as const;
  try {
    const signal = AbortSignal.timeout(2 * CONNECT_MS);
    const connection = await SmtpConnection.open({ host, port }, options, signal);
    connection.quit();
    return ok(`${host}:${port} ${login ? 'takes the login' : 'takes our connection'}`);
  } catch (error) {
    if (!(error instanceof SmtpFailure)) throw error;
    const { message, during, reply } = error;
    const said = reply
      ? `"${oneLine(`${reply.code} ${enhancedOf(reply)} ${reply.text}`)}"`
      : message;
    return failed(
      `${host}:${port}: ${said}`,
      during === 'login'
        ? 'correct the user and the password in SMTP_RELAY_URL: until then no mail is sent'
        : 'look at SMTP_RELAY_URL: host, port, and smtps: or smtp: with STARTTLS; until then no mail is sent',
    );
  }
}
