/** Metrics of mail programs that open mailboxes by IMAP. */
import { Counter, Gauge, type Registry } from 'prom-client';

export interface ImapMetrics {
  /** Reads from now on how many IMAP connections are open; never called where IMAP is off. */
  watchImap(connections: () => number): void;
  /**
   * Counts a command.
   *
   * @param command of those that are known, else `other`
   */
  countImapCommand(command: string, outcome: 'ok' | 'no' | 'bad' | 'bye'): void;
}

export function addImapMetrics(registry: Registry): ImapMetrics {
  const registers = [registry];
  let source: (() => number) | undefined;
  new Gauge({
    name: 'postroom_imap_connections',
    help: 'Open connections of mail programs by IMAP.',
    registers,
    collect() {
      if (source) this.set(source());
      else this.remove();
    },
  });
  const commands = new Counter({
    name: 'postroom_imap_commands_total',
    help: 'IMAP commands, by how they were answered.',
    labelNames: ['command', 'outcome'] as const,
    registers,
  });
  return {
    watchImap(connections) {
      source = connections;
    },
    countImapCommand: (command, outcome) => commands.inc({ command, outcome }),
  };
}
