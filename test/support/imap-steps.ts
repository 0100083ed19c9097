/** Random lives of a mailbox: what mail programs ask for, and what others do beside them. */
import fc from 'fast-check';
import type { StrictClient } from './imap-model.ts';

/** One thing that somebody does. */
export type ImapStep =
  | {
      readonly do: 'commands';
      readonly who: number;
      readonly what: readonly Wanted[];
      readonly cuts: readonly number[];
    }
  | {
      readonly do: 'reconnect' | 'idle' | 'reopen' | 'watch';
      readonly who: number;
      readonly pick: number;
    }
  | { readonly do: 'other'; readonly other: Other; readonly beside: number }
  | { readonly do: 'check' };

interface Wanted {
  readonly command: number;
  readonly pick: number;
  readonly flag: string;
}

export interface Other {
  readonly how: 'smtp' | 'append' | 'flag' | 'unflag' | 'expunge' | 'move';
  readonly pick: number;
  readonly flag: string;
}

const pick = fc.nat(20);
const flag = fc.constantFrom('\\Seen', '\\Deleted', '\\Flagged', '$Label1');
const other: fc.Arbitrary<Other> = fc.record({
  how: fc.constantFrom('smtp', 'append', 'append', 'flag', 'unflag', 'expunge', 'move'),
  pick,
  flag,
});
const wanted = fc.record({ command: fc.nat(100), pick, flag });

export const imapSteps: fc.Arbitrary<ImapStep[]> = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        do: fc.constant('commands' as const),
        who: fc.nat(2),
        what: fc.array(wanted, { minLength: 1, maxLength: 4 }),
        cuts: fc.array(fc.nat(200), { maxLength: 2 }),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant('other' as const), other, beside: fc.nat(3) }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constantFrom('reconnect', 'idle', 'reopen', 'watch'),
        who: fc.nat(2),
        pick,
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('check' as const) }) },
  ),
  { minLength: 10, maxLength: 40 },
);

/** The commands of a step: only the first may use sequence numbers, since those behind it may find other ones. */
export function commandsOf(client: StrictClient, what: readonly Wanted[]): string[] {
  return what.map(({ command, pick: chosen, flag: some }, at) => {
    const uid = client.uidAt(chosen);
    const number = at === 0 ? client.numberAt(chosen) : undefined;
    const text = 'Subject: model\r\n\r\nHi\r\n';
    const message = `{${text.length}+}\r\n${text}`;
    const unchanged = `(UNCHANGEDSINCE ${client.modseq})`;
    const nothing = 'BODY[]<9999.1>';
    const byUid = [
      'NOOP',
      'UID EXPUNGE 1:*',
      `UID STORE ${uid} +FLAGS (${some})`,
      `UID STORE ${uid} -FLAGS.SILENT (${some})`,
      `UID STORE 1:* (UNCHANGEDSINCE 5) FLAGS (${some})`,
      'UID FETCH 1:* (FLAGS)',
      `UID FETCH ${uid}:* (FLAGS)`,
      `UID MOVE ${uid} Archive`,
      `UID MOVE ${uid} INBOX`,
      `UID COPY ${uid} INBOX`,
      'UID SEARCH NOT SEEN',
      'EXPUNGE',
      `APPEND INBOX (${some}) ${message}`,
      'CHECK',
      'UID SEARCH RETURN (SAVE) UNDELETED',
      `UID SEARCH RETURN (SAVE COUNT) UID ${uid}:*`,
      `UID STORE $ +FLAGS (${some})`,
      'UID FETCH $ (FLAGS)',
      'UID EXPUNGE $',
      'UID SORT (ARRIVAL) UTF-8 ALL',
      'UID THREAD REFERENCES UTF-8 ALL',
      `UID REPLACE ${uid} INBOX (${some}) ${message}`,
      `UID FETCH 1:* (${nothing})`,
      'STATUS INBOX (MESSAGES UNSEEN)',
      `UID STORE ${uid}:* ${unchanged} +FLAGS.SILENT (${some})`,
      ...(client.hasQresync
        ? [`UID FETCH 1:* (FLAGS) (CHANGEDSINCE ${client.modseq} VANISHED)`]
        : []),
    ];
    const byNumber = [
      `FETCH ${number}:* (UID FLAGS)`,
      `STORE ${number} +FLAGS (${some})`,
      `STORE ${number} FLAGS.SILENT (${some})`,
      'SEARCH UNDELETED',
      'SEARCH RETURN (SAVE) ALL',
      `COPY ${number} INBOX`,
      `MOVE ${number} INBOX`,
      `MOVE ${number}:* Archive`,
      `REPLACE ${number} INBOX ${message}`,
      `FETCH ${number}:* (${nothing})`,
      'SORT (REVERSE ARRIVAL) UTF-8 ALL',
      'THREAD ORDEREDSUBJECT UTF-8 ALL',
      `STORE ${number}:* ${unchanged} FLAGS (${some})`,
    ];
    const all = number === undefined ? byUid : [...byUid, ...byNumber];
    return all[command % all.length] ?? 'NOOP';
  });
}
