/**
 * The model of a strict mail program: it knows its mailbox only by the untagged lines of answers, as RFC 9051 section 7 and
 * RFC 7162 tell it to. Whatever others do meanwhile, after NOOP it holds what the mailbox holds, and after a new
 * connection with QRESYNC it does so from any state that it was told of.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { UidSet } from '../../src/protocols/imap-syntax/imap-syntax.ts';
import { ImapLines } from './imap-lines.ts';

type Flags = readonly string[];
export type Truth = ReadonlyMap<number, Flags>;

/** What a program may have written down: its messages when it was told of a HIGHESTMODSEQ. */
interface Note {
  readonly uidvalidity: string;
  readonly modseq: string;
  readonly messages: ReadonlyMap<number, Flags>;
}

interface Entry {
  uid: number | undefined;
  /** Undefined where they have to be asked for: of new messages, and after a STORE that tells only the MODSEQ. */
  flags: Flags | undefined;
}

/** Commands during which sequence numbers must stay (RFC 9051 section 7.5.1). */
const KEEPS_NUMBERS = /^(?:FETCH|STORE|SEARCH|SORT|THREAD) /;

export class StrictClient {
  readonly #lines: ImapLines;
  readonly #recents: Map<number, StrictClient>;
  #entries: Entry[] = [];
  #uidvalidity = '';
  /** What it was told in a QRESYNC of messages whose numbers it does not know yet. */
  readonly #known = new Map<number, Flags>();
  readonly #notes: Note[];
  #tags = 0;
  #isRev2 = false;

  private constructor(lines: ImapLines, recents: Map<number, StrictClient>, notes: Note[]) {
    this.#lines = lines;
    this.#recents = recents;
    this.#notes = notes;
  }

  /**
   * @param recents who was told that a message is recent; shared by all clients of the mailbox
   * @param notes of earlier connections
   */
  static async connect(
    port: number,
    login: string,
    recents: Map<number, StrictClient>,
    notes: Note[] = [],
  ): Promise<StrictClient> {
    const client = new StrictClient(await ImapLines.connect(port), recents, notes);
    await client.run([login]);
    return client;
  }

  get size(): number {
    return this.#entries.length;
  }

  /** A UID that it knows, or one that never was. */
  uidAt(pick: number): number {
    return this.#entries[pick % Math.max(1, this.size)]?.uid ?? 1;
  }

  /** Opens the mailbox and reads all of it. */
  async select(isResync: boolean): Promise<void> {
    if (isResync) await this.#enableAll();
    else await this.run(['ENABLE CONDSTORE']);
    await this.run(['SELECT INBOX']);
    await this.complete();
  }

  /** Opens the mailbox by what was written down (RFC 7162 section 3.2.5), and compares with the whole of it. */
  async resync(pick: number): Promise<void> {
    const note = this.#notes[pick % Math.max(1, this.#notes.length)];
    if (!note) return this.select(true);
    await this.#enableAll();
    this.#known.clear();
    for (const [uid, flags] of note.messages) this.#known.set(uid, flags);
    await this.run([`SELECT INBOX (QRESYNC (${note.uidvalidity} ${note.modseq}))`]);
    const resynced = new Map(this.#known);
    await this.complete();
    const whole = this.messages();
    // Others may have changed flags since the SELECT, which came with an answer then.
    for (const [uid, flags] of this.#known) resynced.set(uid, flags);
    for (const uid of [...resynced.keys()]) if (!this.#known.has(uid)) resynced.delete(uid);
    assert.deepEqual(byUid(resynced), byUid(whole), `resync from ${note.modseq}`);
  }

  async #enableAll(): Promise<void> {
    this.#isRev2 = true;
    await this.run(['ENABLE QRESYNC IMAP4rev2']);
  }

  /** Asks for what it does not know of its messages. */
  async complete(): Promise<void> {
    if (this.size > 0) await this.run(['FETCH 1:* (UID FLAGS)']);
  }

  /** Whether the list of messages is whole: all UIDs and flags were told. */
  get #isWhole(): boolean {
    return this.#entries.every(({ uid, flags }) => uid !== undefined && flags !== undefined);
  }

  messages(): Map<number, Flags> {
    return new Map(this.#entries.map(({ uid, flags }) => [uid ?? 0, flags ?? []]));
  }

  /** After everybody has finished: it holds the truth. */
  async check(truth: Truth): Promise<void> {
    await this.run(['NOOP']);
    if (!this.#isWhole) await this.complete();
    assert.deepEqual(byUid(this.messages()), byUid(truth));
  }

  /** Waits in IDLE until others have done something. */
  async idle(meanwhile: () => Promise<void>): Promise<void> {
    const tag = `i${++this.#tags}`;
    this.#lines.send(`${tag} IDLE\r\n`);
    assert.match(await this.#lines.next(), /^\+ /);
    await meanwhile();
    this.#lines.send('DONE\r\n');
    await this.#answer(tag, 'IDLE');
  }

  /** Sends commands at once, cut anywhere, and applies what comes. @returns the tagged answers */
  async run(commands: readonly string[], cuts: readonly number[] = []): Promise<string[]> {
    const tagged = commands.map((command) => ({ tag: `t${++this.#tags}`, command }));
    const text = tagged.map(({ tag, command }) => `${tag} ${command}\r\n`).join('');
    const bounds = [0, ...cuts.map((cut) => cut % text.length).sort((a, b) => a - b)];
    for (const [at, from] of bounds.entries()) {
      this.#lines.send(text.slice(from, bounds[at + 1]));
      await new Promise(setImmediate);
    }
    const answers: string[] = [];
    for (const { tag, command } of tagged) answers.push(await this.#answer(tag, command));
    return answers;
  }

  async #answer(tag: string, command: string): Promise<string> {
    for (;;) {
      const line = await this.#lines.next();
      assert.notEqual(line, '', `the connection ended in ${command}`);
      if (line.startsWith('+ ')) continue;
      if (line.startsWith(`${tag} `)) {
        const isAnswer = command.startsWith('STORE') ? / (?:OK|NO \[EXPUNGEISSUED\])/ : / OK/;
        assert.match(line, isAnswer, `${command}: ${line}`);
        this.#note(line, command);
        return line;
      }
      if (command.startsWith('SELECT') && line.startsWith('* OK [CLOSED]')) this.#entries = [];
      this.#apply(line, command);
    }
  }

  #apply(line: string, command: string): void {
    const [, count, what] = /^\* (\d+) (EXISTS|EXPUNGE|FETCH)/.exec(line) ?? [];
    const number = Number(count);
    if (what === 'EXISTS') {
      assert.ok(number >= this.size, `${line} after ${this.size}`);
      while (this.size < number) this.#entries.push({ uid: undefined, flags: undefined });
    } else if (what === 'EXPUNGE') {
      assert.ok(number >= 1 && number <= this.size, `${line} of ${this.size}`);
      assert.doesNotMatch(command, KEEPS_NUMBERS, `${line} in ${command}`);
      const [gone] = this.#entries.splice(number - 1, 1);
      if (gone?.uid) this.#known.delete(gone.uid);
    } else if (what === 'FETCH') this.#fetch(number, line);
    const [, earlier, uids] = /^\* VANISHED (\(EARLIER\) )?(\S+)$/.exec(line) ?? [];
    if (uids !== undefined) this.#vanish(uids, earlier !== undefined, command);
    if (this.#isRev2) assert.doesNotMatch(line, /RECENT|^\* SEARCH/i);
    if (/^\* E?SEARCH/.test(line)) {
      for (const [found] of line.replace(/\(TAG .*?\)/, '').matchAll(/\d+/g)) {
        assert.ok(command.startsWith('UID') || Number(found) <= this.size, line);
      }
    }
    this.#uidvalidity = /\[UIDVALIDITY (\d+)\]/.exec(line)?.[1] ?? this.#uidvalidity;
    this.#note(line, command);
  }

  #fetch(number: number, line: string): void {
    const entry = this.#entries[number - 1];
    assert.ok(entry, `${line} of ${this.size}`);
    const uid = /UID (\d+)/.exec(line)?.[1];
    if (uid !== undefined) {
      assert.ok(entry.uid === undefined || entry.uid === Number(uid), `${line}: was ${entry.uid}`);
      entry.uid = Number(uid);
      const [before, after] = [this.#entries[number - 2]?.uid, this.#entries[number]?.uid];
      assert.ok((before ?? 0) < entry.uid && entry.uid < (after ?? Number.POSITIVE_INFINITY), line);
    }
    const flags = /FLAGS \(([^)]*)\)/.exec(line)?.[1];
    entry.flags = undefined;
    if (flags === undefined) return;
    const all = flags.split(' ').filter(Boolean);
    entry.flags = all.filter((flag) => flag !== '\\Recent').sort();
    if (entry.uid !== undefined) {
      this.#known.set(entry.uid, entry.flags);
      if (all.includes('\\Recent')) {
        const other = this.#recents.get(entry.uid);
        assert.ok(other === undefined || other === this, `${line} is recent twice`);
        this.#recents.set(entry.uid, this);
      }
    }
  }

  #vanish(text: string, isEarlier: boolean, command: string): void {
    const gone = UidSet.parse(text);
    assert.ok(gone, text);
    for (const uid of [...this.#known.keys()]) {
      if (UidSet.of([uid]).without(gone).size === 0) this.#known.delete(uid);
    }
    if (isEarlier) return;
    assert.doesNotMatch(command, KEEPS_NUMBERS, `VANISHED in ${command}`);
    for (const uid of gone.take()) {
      const at = this.#indexOf(uid);
      assert.ok(at >= 0, `${uid} vanished, and was not there`);
      this.#entries.splice(at, 1);
    }
  }

  /** Where a message is; of some only the number was told: then any that stands between smaller and larger UIDs. */
  #indexOf(uid: number): number {
    const known = this.#entries.findIndex((entry) => entry.uid === uid);
    if (known >= 0) return known;
    const after = this.#entries.findIndex((entry) => (entry.uid ?? 0) > uid);
    const last = (after < 0 ? this.size : after) - 1;
    return this.#entries[last]?.uid === undefined ? last : -1;
  }

  /** Writes down what it has where it is told how far that goes. */
  #note(line: string, command: string): void {
    const modseq = /\[HIGHESTMODSEQ (\d+)\]/.exec(line)?.[1];
    if (modseq === undefined || command.startsWith('SELECT') || !this.#isWhole) return;
    this.#notes.push({ uidvalidity: this.#uidvalidity, modseq, messages: this.messages() });
  }

  get notes(): Note[] {
    return this.#notes;
  }

  close(): void {
    this.#lines.close();
  }
}

function byUid(messages: ReadonlyMap<number, Flags>): [number, Flags][] {
  return [...messages].sort(([a], [b]) => a - b);
}

/** One thing that somebody does. */
export type ImapStep =
  | {
      readonly do: 'commands';
      readonly who: number;
      readonly what: readonly Wanted[];
      readonly cuts: readonly number[];
    }
  | { readonly do: 'reconnect' | 'idle'; readonly who: number; readonly pick: number }
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
      weight: 2,
      arbitrary: fc.record({
        do: fc.constantFrom('reconnect' as const, 'idle' as const),
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
    const number = at === 0 && client.size > 0 ? (chosen % client.size) + 1 : undefined;
    const message = 'Subject: model\r\n\r\nHi\r\n';
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
      `APPEND INBOX (${some}) {${message.length}+}\r\n${message}`,
      'CHECK',
    ];
    const byNumber = [
      `FETCH ${number}:* (UID FLAGS)`,
      `STORE ${number} +FLAGS (${some})`,
      `STORE ${number} FLAGS.SILENT (${some})`,
      'SEARCH UNDELETED',
    ];
    const all = number === undefined ? byUid : [...byUid, ...byNumber];
    return all[command % all.length] ?? 'NOOP';
  });
}
