/** Metrics of mail programs that open mailboxes by IMAP. */
import type { Instruments } from './instruments.ts';

/** What is open by IMAP now. */
interface ImapState {
  readonly connections: number;
  /** After a login; those of them that wait in IDLE. */
  readonly sessions: { readonly open: number; readonly idle: number };
}

export function addImapMetrics({ counter, read, amounts }: Instruments) {
  let state: (() => ImapState) | undefined;
  read(
    'postroom_imap_connections',
    'Open connections of mail programs by IMAP.',
    async () => state?.().connections,
  );
  read(
    'postroom_imap_sessions',
    'IMAP connections in which an account is open.',
    async () => state?.().sessions.open,
  );
  read(
    'postroom_imap_idle_sessions',
    'IMAP sessions that wait for changes with IDLE.',
    async () => state?.().sessions.idle,
  );
  const commands = counter(
    'postroom_imap_commands_total',
    'IMAP commands, by how they were answered.',
    ['command', 'outcome'],
  );
  // Counted for each line that comes or is sent, where Prometheus' counter would cost as much as all else.
  const octets = { received: 0, sent: 0 };
  amounts(
    'postroom_imap_bytes_total',
    'Bytes that mail programs sent and got by IMAP, before encryption.',
    'direction',
    () => (octets.received + octets.sent > 0 ? octets : {}),
  );
  const refused = counter(
    'postroom_imap_refused_total',
    'IMAP connections that were refused, since too many were open.',
    ['reason'],
  );
  return {
    /** Reads from now on what is open; never called where IMAP is off. */
    watchImap(source: () => ImapState) {
      state = source;
    },
    /** @param command of those that are known, else `other` */
    countImapCommand(command: string, outcome: 'ok' | 'no' | 'bad' | 'bye' | 'failed') {
      commands.inc({ command, outcome });
    },
    countImapOctets(direction: 'received' | 'sent', amount: number) {
      octets[direction] += amount;
    },
    countImapRefusal(reason: 'before_login' | 'of_client' | 'of_user' | 'of_account') {
      refused.inc({ reason });
    },
  };
}
