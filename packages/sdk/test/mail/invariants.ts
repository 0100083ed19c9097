/** Rules that hold for the rows of a copy after each write, whatever happened before it. */
import type { MailboxRow, MessageRow } from '../../src/mail/rows.ts';
import type { Store } from '../../src/mail.ts';
import type { FakeAccount } from '../../src/testing/account.ts';

/** The flags of each message, by UID. */
type Flags = ReadonlyMap<number, string>;

/** What a mailbox of the server had at a token, which is a MODSEQ. */
interface State {
  readonly modseq: number;
  readonly flags: Flags;
}

const textOf = (flags: readonly string[]) => [...flags].sort().join(' ');

export class Invariants {
  readonly #store: Store;
  readonly #account: FakeAccount;
  /** By UIDVALIDITY, upwards. */
  readonly #states = new Map<string, State[]>();
  /** How many copies were compared with what the server had. */
  compared = 0;

  constructor(store: Store, account: FakeAccount) {
    this.#store = store;
    this.#account = account;
  }

  /** Notes what the server has now. */
  note(): void {
    for (const mailbox of this.#account.mailboxes) {
      const { uidvalidity, token } = mailbox.state;
      const states = this.#states.get(uidvalidity) ?? [];
      this.#states.set(uidvalidity, states);
      const modseq = Number(token);
      if (states.at(-1)?.modseq === modseq) continue;
      const messages = mailbox.existing(mailbox.uids);
      const flags = new Map(messages.map(({ uid, flags: own }) => [uid, textOf(own)]));
      states.push({ modseq, flags });
    }
  }

  /** @returns what does not hold */
  async check(): Promise<string[]> {
    const found: string[] = [];
    const mailboxes = (await this.#store.range({ table: 'mailboxes', prefix: [] })) as MailboxRow[];
    for (const mailbox of mailboxes.filter(({ gone }) => !gone)) {
      const { box, generation, name, paging, uidvalidity = '', token } = mailbox;
      const rows = { table: 'messages', prefix: [box, generation] } as const;
      const messages = (await this.#store.range(rows)) as MessageRow[];
      const copy = new Map(messages.map(({ uid, flags }) => [uid, textOf(flags)]));
      const since = (this.#states.get(uidvalidity) ?? []).filter(
        (one) => one.modseq >= Number(token),
      );
      // What the server had at the token, or has had since: a later page of one sync may tell newer facts.
      if (!paging && since[0]?.modseq === Number(token)) {
        this.compared++;
        const uids = new Set([...copy.keys(), ...since.flatMap(({ flags }) => [...flags.keys()])]);
        for (const uid of uids) {
          if (!since.some(({ flags }) => flags.get(uid) === copy.get(uid)))
            found.push(`${name} has ${uid} as the server never had it since ${token}`);
        }
      }
      // A text belongs to a message.
      for (const { uid } of await this.#store.range({ ...rows, table: 'bodies' })) {
        if (!copy.has(Number(uid))) found.push(`${name} has a text without the message ${uid}`);
      }
    }
    return found;
  }
}
