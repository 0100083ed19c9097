/** Streams of octets that no mail program sends: each command gets one tagged answer, or the connection ends. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Refusal } from '../../platform/errors/errors.ts';
import { type CommandParts, CommandReader } from './command-reader.ts';
import { commands } from './commands.ts';
import { RecentMessages } from './recent.ts';
import { runCommand } from './run-command.ts';
import { Bye, type Channel, type ImapMailstore, Session } from './session.ts';
import { View } from './view.ts';
import type { Output } from './write.ts';

/** 1,000,000 by hand: `IMAP_FUZZ_RUNS=1000000 node --test src/servers/imap/fuzz.test.ts`. */
const RUNS = Number(process.env.IMAP_FUZZ_RUNS ?? '10000');
const LIMITS = { line: 4_000, literals: 5, literalOctets: 500 };
const USER = {
  accountId: 1,
  address: 'ann@a.test',
  userId: 'u',
  credentialVersion: 1,
  expiresAt: 0,
};

const refuse = () =>
  Promise.reject(new Refusal('mailbox_not_found', 'there is no mailbox "\r\n* 1"'));
const nothing = () => Promise.resolve([]);
const imap = {
  rows: nothing,
  index: () => Promise.resolve({ uids: [], modseqs: [], flags: [] }),
  texts: () => Promise.resolve(new Map()),
  bodies: () => Promise.resolve(new Map()),
  list: nothing,
  subscriptions: () => Promise.resolve(new Map([['a/"\\b', true]])),
  keepRecent: () => Promise.resolve(),
};
/** A store in which nothing is found. */
const mailstore = new Proxy(
  { imap: new Proxy(imap, { get: (target, name) => Reflect.get(target, name) ?? refuse }) },
  { get: (target, name) => Reflect.get(target, name) ?? refuse },
) as unknown as ImapMailstore;

/** Of all sessions: what it keeps has room for thousands of mailboxes. */
const recents = new RecentMessages();

function makeSession(): Session {
  const channel: Channel = {
    address: '192.0.2.1',
    isSecure: true,
    mayLogIn: true,
    signal: new AbortController().signal,
    startTls: () => {},
    admit: () => Promise.resolve(true),
    flush: () => Promise.resolve(),
    passOnTo: () => {},
    nextLine: () => Promise.resolve(undefined),
    literal: { octets: 3 },
    async *readLiteral() {
      yield Buffer.from('a\nb');
    },
    nextMessage: () => Promise.resolve(undefined),
  };
  const logins = { withPassword: refuse, withToken: refuse };
  return new Session({ mailstore, logins, recents, maxMessageBytes: 1_000 }, channel);
}

function select(session: Session): void {
  const mailbox = {
    ...{ id: 1, name: 'INBOX', uidvalidity: 1, highestmodseq: 1, pruned_modseq: 0, fork_modseq: 0 },
    ...{ uidnext: 9, messages: 3, unseen: 0, octets: 0, special_use: null, keywords: '' },
    recent_uid: 1,
  };
  session.openMailbox(new View({ mailbox, uids: [2, 5, 8], token: '1', isReadOnly: false }));
}

const words = [
  ...[
    '1:*',
    '2',
    '*',
    '$',
    '1:2,3',
    '1:2:3',
    '(',
    ')',
    ' ',
    ' ',
    ' ',
    '"',
    '"a"',
    '\\',
    '%',
    '*',
    '\0',
    'é',
    '{2}',
    '{2+}\r\n',
  ],
  ...[
    'FLAGS',
    '(\\Seen)',
    '+FLAGS',
    '.SILENT',
    'BODY[',
    ']',
    'HEADER.FIELDS',
    '<0.1>',
    'ENVELOPE',
    'MODSEQ',
    'RETURN',
  ],
  ...[
    'SAVE',
    'PARTIAL',
    '-1:-2',
    'CHANGEDSINCE',
    'UNCHANGEDSINCE',
    'QRESYNC',
    'VANISHED',
    'OR',
    'NOT',
    'SINCE',
    'ALL',
    '(REVERSE DATE)',
    'UTF-8',
    'REFERENCES',
    'ORDEREDSUBJECT',
  ],
  ...[
    '1-Feb-1994',
    'INBOX',
    'a/b',
    '&AOQ-',
    '&',
    'STATUS',
    'SUBSCRIBED',
    'RECURSIVEMATCH',
    '""',
    '"*"',
    'NIL',
    '\r\n',
  ],
  ...[
    'BINARY[',
    'BINARY.SIZE[',
    'UTF8 (',
    'IMAP4rev2',
    '(USE (',
    'account',
    'SET',
    '(selected',
    '(personal',
    '(MessageNew',
    'MessageExpunge',
    'FlagChange',
    'MailboxName',
    'NONE',
  ],
];
const name = fc.constantFrom(...Object.keys(commands), 'XYZ');
const word = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...words) },
  { weight: 1, arbitrary: fc.string({ maxLength: 5 }) },
  { weight: 1, arbitrary: fc.nat(5_000_000_000).map(String) },
);
const line = fc
  .tuple(fc.constantFrom('a', 'a1', '', '*'), name, fc.array(word, { maxLength: 9 }))
  .map(([tag, command, rest]) => `${tag} ${command} ${rest.join('')}\r\n`);

function readAll(octets: Buffer): CommandParts[] {
  const reader = new CommandReader(LIMITS);
  reader.push(octets);
  const found: CommandParts[] = [];
  for (let reading = reader.next(); reading; reading = reader.next()) {
    if (reading.kind === 'too long') return found;
    if (reading.kind === 'command') found.push(reading.parts);
    else if (reader.hasRoomFor(reading.literal)) reader.keep(reading.literal);
    else return found;
  }
  return found;
}

test('every command of any stream has one answer, and no answer has a line of the client', async () => {
  const stream = fc.tuple(fc.array(line, { maxLength: 4 }), fc.boolean(), fc.boolean());
  await fc.assert(
    fc.asyncProperty(stream, async ([lines, isSelected, isRev2]) => {
      for (const parts of readAll(Buffer.from(lines.join('')))) {
        const session = makeSession();
        session.logIn(USER);
        session.isRev2 = isRev2;
        session.isUtf8 = isRev2;
        if (isSelected) select(session);
        let text = '';
        const errors: unknown[] = [];
        const send = (output: Output) => {
          if (typeof output === 'string') text += output;
          return undefined;
        };
        try {
          await runCommand(session, parts, send, ({ error }) => {
            if (error !== undefined) errors.push(error);
          });
        } catch (error) {
          if (!(error instanceof Bye)) throw error;
          text += '* BYE\r\n';
        }
        assert.deepEqual(errors, [], String(parts));
        const last = text.split('\r\n').at(-2) ?? '';
        assert.match(last, /^(?:\S+ (?:OK|NO|BAD) [ -~]*|\* BYE)$/, JSON.stringify([parts, text]));
        assert.equal(text.match(/^a1? (?:OK|NO|BAD) /gm)?.length ?? 1, 1, text);
      }
    }),
    { numRuns: RUNS },
  );
});
