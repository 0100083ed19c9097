/** Metrics of mail programs that open mailboxes by IMAP. */
import { Counter, Gauge, type Registry } from 'prom-client';

/** What is open by IMAP now. */
export interface ImapState {
  readonly connections: number;
  /** After a login; those of them that wait in IDLE. */
  readonly sessions: { readonly open: number; readonly idle: number };
}

export interface ImapMetrics {
  /** Reads from now on what is open; never called where IMAP is off. */
  watchImap(state: () => ImapState): void;
  /**
   * Counts a command.
   *
   * @param command of those that are known, else `other`
   */
  countImapCommand(command: string, outcome: 'ok' | 'no' | 'bad' | 'bye' | 'failed'): void;
  countImapOctets(direction: 'received' | 'sent', octets: number): void;
  countImapRefusal(reason: 'before_login' | 'of_client' | 'of_user' | 'of_account'): void;
}

export function addImapMetrics(registry: Registry): ImapMetrics {
  const registers = [registry];
  let source: (() => ImapState) | undefined;
  const addGauge = (name: string, help: string, read: (state: ImapState) => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        if (source) this.set(read(source()));
        else this.remove();
      },
    });
  addGauge(
    'postroom_imap_connections',
    'Open connections of mail programs by IMAP.',
    ({ connections }) => connections,
  );
  addGauge(
    'postroom_imap_sessions',
    'IMAP connections in which an account is open.',
    ({ sessions }) => sessions.open,
  );
  addGauge(
    'postroom_imap_idle_sessions',
    'IMAP sessions that wait for changes with IDLE.',
    ({ sessions }) => sessions.idle,
  );
  const commands = new Counter({
    name: 'postroom_imap_commands_total',
    help: 'IMAP commands, by how they were answered.',
    labelNames: ['command', 'outcome'] as const,
    registers,
  });
  // Counted for each line that comes or is sent, where Prometheus' counter would cost as much as all else.
  const octets = { received: 0, sent: 0 };
  new Counter({
    name: 'postroom_imap_bytes_total',
    help: 'Bytes that mail programs sent and got by IMAP, before encryption.',
    labelNames: ['direction'] as const,
    registers,
    collect() {
      this.reset();
      for (const direction of ['received', 'sent'] as const)
        if (octets[direction] > 0) this.inc({ direction }, octets[direction]);
    },
  });
  const refused = new Counter({
    name: 'postroom_imap_refused_total',
    help: 'IMAP connections that were refused, since too many were open.',
    labelNames: ['reason'] as const,
    registers,
  });
  return {
    watchImap(state) {
      source = state;
    },
    countImapCommand: (command, outcome) => commands.inc({ command, outcome }),
    countImapOctets(direction, amount) {
      octets[direction] += amount;
    },
    countImapRefusal: (reason) => refused.inc({ reason }),
  };
}
