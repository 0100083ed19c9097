/**
 * The model of a strict mail program: it knows its mailbox only by the untagged lines of answers, as RFC 9051 section 7 and
 * RFC 7162 tell it to. Whatever others do meanwhile, after NOOP it holds what the mailbox holds, and after a new
 * connection with QRESYNC it does so from any state that it was told of.
 */
import assert from 'node:assert/strict';
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
const OPENS = /^(?:SELECT|EXAMINE) /;

/** What a command may be answered where messages that it names are gone. */
function answerOf(command: string): RegExp {
  if (/^(?:UID )?REPLACE/.test(command)) return / (?:OK|NO \[(?:EXPUNGEISSUED|CANNOT)\])/;
  return command.startsWith('STORE') ? / (?:OK|NO \[EXPUNGEISSUED\])/ : / OK/;
}

export class StrictClient {
  readonly #lines: ImapLines;
  readonly #recents: Map<number, StrictClient> | undefined;
  #entries: Entry[] = [];
  #uidvalidity = '';
  /** What it was told in a QRESYNC of messages whose numbers it does not know yet. */
  readonly #known = new Map<number, Flags>();
  readonly #notes: Note[];
  #tags = 0;
  #isRev2 = false;
  /** Removals are told at any time (RFC 5465 section 5.3), so that it names no message by its number. */
  #isToldAtOnce = false;
  /** The last HIGHESTMODSEQ that it was told. */
  #modseq = '1';

  private constructor(
    lines: ImapLines,
    recents: Map<number, StrictClient> | undefined,
    notes: Note[],
  ) {
    this.#lines = lines;
    this.#recents = recents;
    this.#notes = notes;
  }

  /**
   * @param recents who was told that a message is recent; shared by all clients of the mailbox. Undefined on several nodes,
   *   of which each may tell it
   * @param notes of earlier connections
   */
  static async connect(
    port: number,
    login: string,
    recents: Map<number, StrictClient> | undefined,
    notes: Note[] = [],
  ): Promise<StrictClient> {
    const client = new StrictClient(await ImapLines.connect(port), recents, notes);
    await client.run([login]);
    return client;
  }

  get size(): number {
    return this.#entries.length;
  }

  get hasQresync(): boolean {
    return this.#isRev2;
  }

  get modseq(): string {
    return this.#modseq;
  }

  /** The number of a message; undefined where it knows none, or may not use any. */
  numberAt(pick: number): number | undefined {
    return this.size > 0 && !this.#isToldAtOnce ? (pick % this.size) + 1 : undefined;
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

  /** Leaves the mailbox in one of the ways that there are, and comes back. */
  async reopen(pick: number): Promise<void> {
    const way = ['UNSELECT', 'CLOSE', 'EXAMINE INBOX', 'NOOP'][pick % 4] ?? '';
    await this.run([way]);
    if (pick % 4 < 2) this.#entries = [];
    await (this.#isRev2 ? this.resync(pick) : this.select(false));
  }

  /** Is told without a command what others do; of removals at once, or with the next command (RFC 5465 section 6.1). */
  async watch(pick: number): Promise<void> {
    const isAtOnce = pick % 2 === 0;
    const items = pick % 3 === 0 ? '' : ' (UID FLAGS)';
    const which = isAtOnce ? 'SELECTED' : 'SELECTED-DELAYED';
    await this.run([`NOTIFY SET (${which} (MessageNew${items} MessageExpunge FlagChange))`]);
    this.#isToldAtOnce = isAtOnce;
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
    for (let line = await this.#lines.next(); !line.startsWith('+ '); ) {
      assert.match(line, /^\* /);
      this.#apply(line, 'IDLE');
      line = await this.#lines.next();
    }
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
        assert.match(line, answerOf(command), `${command}: ${line}`);
        this.#note(line, command);
        return line;
      }
      if (OPENS.test(command) && line.startsWith('* OK [CLOSED]')) this.#entries = [];
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
      this.#checkRemoval(line, command);
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
        const other = this.#recents?.get(entry.uid);
        assert.ok(other === undefined || other === this, `${line} is recent twice`);
        this.#recents?.set(entry.uid, this);
      }
    }
  }

  #checkRemoval(line: string, command: string): void {
    if (!this.#isToldAtOnce) assert.doesNotMatch(command, KEEPS_NUMBERS, `${line} in ${command}`);
  }

  #vanish(text: string, isEarlier: boolean, command: string): void {
    const gone = UidSet.parse(text);
    assert.ok(gone, text);
    for (const uid of [...this.#known.keys()]) {
      if (UidSet.of([uid]).without(gone).size === 0) this.#known.delete(uid);
    }
    if (isEarlier) return;
    this.#checkRemoval(`VANISHED ${text}`, command);
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
    this.#modseq = modseq ?? this.#modseq;
    if (modseq === undefined || OPENS.test(command) || !this.#isWhole) return;
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
