/**
 * The checks of the doctor that open a session where mail goes from here, as a send or a delivery does: the relay, and the
 * mail server of the mailboxes. Nothing is sent.
 */
import { oneLine } from '../../protocols/message/message.ts';
import {
  enhancedOf,
  SmtpConnection,
  SmtpFailure,
} from '../../protocols/smtp-client/smtp-client.ts';
import type { Config, ImapMailstore } from '../config/config.ts';
import { CONNECT_MS, failed, ok, type Verdict } from './check-stores.ts';

/** @param hostname ours, for EHLO */
export async function checkRelay(
  { host, port, implicitTls, login }: NonNullable<Config['outbound']['relay']>,
  hostname: string,
): Promise<Verdict> {
  const encrypted = login ? 'required' : 'offered';
  const tls = implicitTls ? 'implicit' : encrypted;
  const failure = await greet(
    { host, port },
    { protocol: 'smtp', hostname, name: host, login, tls },
  );
  if (!failure) return ok(`${host}:${port} ${login ? 'takes the login' : 'takes our connection'}`);
  return failed(
    `${host}:${port}: ${sayOf(failure)}`,
    failure.during === 'login'
      ? 'correct the user and the password in SMTP_RELAY_URL: until then no mail is sent'
      : 'look at SMTP_RELAY_URL: host, port, and smtps: or smtp: with STARTTLS; until then no mail is sent',
  );
}

/** @param hostname ours, for LHLO */
export async function checkLmtp(
  { host, port }: NonNullable<ImapMailstore['deliverTo']>,
  hostname: string,
): Promise<Verdict> {
  const failure = await greet({ host, port }, { protocol: 'lmtp', hostname, tls: 'none' });
  if (!failure) return ok(`${host}:${port} takes our connection`);
  return failed(
    `${host}:${port}: ${sayOf(failure)}`,
    'look at LMTP_URL: it names the LMTP port of the mail server, not that of SMTP; until it answers, mail is deferred',
  );
}

/** Opens a session and ends it. @returns why it could not be opened */
async function greet(
  endpoint: { readonly host: string; readonly port: number },
  options: Omit<Parameters<typeof SmtpConnection.open>[1], 'timeouts'>,
): Promise<SmtpFailure | undefined> {
  const timeouts = { connect: CONNECT_MS, reply: CONNECT_MS, message: CONNECT_MS };
  try {
    const signal = AbortSignal.timeout(2 * CONNECT_MS);
    const connection = await SmtpConnection.open(endpoint, { ...options, timeouts }, signal);
    connection.quit();
    return undefined;
  } catch (error) {
    if (error instanceof SmtpFailure) return error;
    throw error;
  }
}

function sayOf({ message, reply }: SmtpFailure): string {
  return reply ? `"${oneLine(`${reply.code} ${enhancedOf(reply)} ${reply.text}`)}"` : message;
}
