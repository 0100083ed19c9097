/** Texts of messages: from the copy where they are there, and fetched ahead while nothing else is to be done. */
import type { Content } from '../api-types.ts';
import type { Copy } from './copy.ts';
import type { Platform } from './platform.ts';
import {
  type BodyRow,
  byDate,
  isSeen,
  type MailboxRow,
  type MessageRow,
  put,
  removal,
} from './rows.ts';
import type { MailServer } from './server.ts';
import type { Key } from './store.ts';

export interface BodiesOptions {
  readonly copy: Copy;
  readonly server: MailServer;
  readonly platform: Platform;
  /** Octets that are kept at most. */
  readonly budget: number;
}

/** Of INBOX, fetched ahead. */
const NEWEST = 200;
/** Beside the one that was opened. */
const NEAR = 10;
/** A larger message is fetched when it is read. */
const LARGEST = 512 * 1024;
const UIDS = 100;

export class Bodies {
  readonly #options: BodiesOptions;
  /** Messages that were looked at, so that nothing is asked twice. */
  readonly #tried = new Set<string>();
  /** The state of the copy for which all that is wanted was fetched. */
  #done = '';
  /** The message that was opened last. */
  #near: MessageRow | undefined;
  /** Octets of all bodies of the account, once they were counted: until then it is no number. */
  #weight = Number.NaN;
  #rows = 0;

  constructor(options: BodiesOptions) {
    this.#options = options;
  }

  /** @throws ConnectionError, ApiError where the copy lacks it */
  async read(row: MessageRow, mailbox: string): Promise<Content> {
    const { copy, server, platform } = this.#options;
    this.#near = row;
    const kept = (await copy.store.get('bodies', keyOf(row))) as BodyRow | undefined;
    if (kept) {
      // Once an hour is enough to know what was not read for long.
      if (platform.now() - kept.usedAt > 3_600_000)
        await this.#write({ ...kept, usedAt: platform.now() });
      return kept.content;
    }
    const content = await server.call('GET /mail/content', { query: { mailbox, uid: row.uid } });
    const body = this.#toRow(row, content);
    if (body.weight <= LARGEST) {
      await this.#write(body);
      this.#weight += body.weight;
    }
    return content;
  }

  /** Only beside its message: one that was removed meanwhile leaves nothing. */
  async #write(body: BodyRow): Promise<void> {
    const { store } = this.#options.copy;
    await store.update('messages', keyOf(body), (row) => (row ? [put('bodies', body)] : []));
  }

  #toRow({ account, box, generation, uid }: MessageRow, content: Content): BodyRow {
    const { text = '', html = '' } = content;
    const weight = 2 * (text.length + html.length) + 500;
    // Fractions of a millisecond: no two are the same, so that a range goes on after each of them.
    const usedAt = this.#options.platform.now() + (this.#rows++ % 1000) / 1000;
    return { account, box, generation, uid, usedAt, weight, content };
  }

  /** What could be fetched ahead now. One who leads no more writes nothing: the next one counted what there is. */
  next(epoch: number): (() => Promise<void>) | undefined {
    const { copy, budget } = this.#options;
    const near = this.#near;
    const inbox = copy.mailbox('INBOX');
    const key = `${inbox?.box}/${inbox?.token}/${near?.box}/${near?.date}`;
    if (!inbox || budget === 0 || this.#done === key) return undefined;
    return async () => {
      if (await this.#prefetch(inbox, near, epoch)) this.#done = key;
    };
  }

  async #prefetch(
    inbox: MailboxRow,
    near: MessageRow | undefined,
    epoch: number,
  ): Promise<boolean> {
    const { copy, budget } = this.#options;
    if ((await this.#measure()) > budget) {
      await this.#makeRoom(epoch);
      return true;
    }
    const wanted = (await this.#newest(inbox)).concat(near ? await this.#beside(near) : []);
    const missing: MessageRow[] = [];
    for (const row of wanted) {
      const key = keyOf(row);
      if (row.size > LARGEST || this.#tried.has(key.join())) continue;
      if (await copy.store.get('bodies', key)) this.#tried.add(key.join());
      else missing.push(row);
    }
    const box = missing[0]?.box;
    const batch = missing.filter((row) => row.box === box).slice(0, UIDS);
    if (batch.length === 0) return true;
    await this.#fetch(batch, epoch);
    return false;
  }

  async #fetch(batch: readonly MessageRow[], epoch: number): Promise<void> {
    const { copy, server } = this.#options;
    const box = copy.box(batch[0]?.box);
    if (!box) return;
    const uids = batch.map(({ uid }) => uid);
    const body = { mailbox: box.name, uids };
    const { messages, hasMore } = await server.call('POST /mail/messages', { body });
    // Without a choice of fields each has all of them.
    const byUid = new Map((messages as Content[]).map((message) => [message.uid, message]));
    const texts = batch.flatMap((row) => {
      const content = byUid.get(row.uid);
      // One that is not there, or did not fit as the first: it is fetched when it is read.
      if (!hasMore || content || messages.length === 0) this.#tried.add(keyOf(row).join());
      return content ? this.#toRow(row, content) : [];
    });
    await copy.write(epoch, 'relaxed', async () => {
      const now = await copy.rows(box.box, uids);
      const kept = texts.filter(({ uid, generation, weight }) => {
        return weight <= LARGEST && now.get(uid)?.generation === generation;
      });
      for (const { weight } of kept) this.#weight += weight;
      return kept.map((text) => put('bodies', text));
    });
  }

  async #newest(inbox: MailboxRow): Promise<MessageRow[]> {
    const query = { ...byDate(inbox), reverse: true, limit: 1000 };
    const rows = (await this.#options.copy.store.range(query)) as MessageRow[];
    return rows.filter(({ flags }, index) => index < NEWEST || !isSeen(flags));
  }

  async #beside({ box, date }: MessageRow): Promise<MessageRow[]> {
    const { copy } = this.#options;
    const row = copy.box(box);
    if (!row) return [];
    const query = { ...byDate(row), limit: NEAR };
    const older = await copy.store.range({ ...query, before: [date, 0], reverse: true });
    const newer = await copy.store.range({ ...query, after: [date, 0] });
    return [...older, ...newer] as MessageRow[];
  }

  /** They are counted anew: another tab led meanwhile, and kept texts. */
  forget(): void {
    this.#weight = Number.NaN;
  }

  async #measure(): Promise<number> {
    if (!Number.isNaN(this.#weight)) return this.#weight;
    let sum = 0;
    for (let after: Key | undefined; ; ) {
      const rows = await this.#longestUnread(50, after);
      for (const { weight } of rows) sum += weight;
      const last = rows.at(-1);
      if (!last) break;
      after = [last.usedAt];
    }
    this.#weight = sum;
    return sum;
  }

  async #longestUnread(limit: number, after?: Key): Promise<BodyRow[]> {
    const { store, account } = this.#options.copy;
    const query = { table: 'bodies', index: 'byUse', prefix: [account], limit, after } as const;
    return (await store.range(query)) as BodyRow[];
  }

  /** What was not read for longest goes, until a fifth is free. */
  async #makeRoom(epoch: number): Promise<void> {
    const { copy, budget } = this.#options;
    while (this.#weight > 0.8 * budget) {
      const rows = await this.#longestUnread(20);
      // More was counted than there is: texts go with their messages.
      if (rows.length === 0) return this.forget();
      const removed = rows.map((row) => removal('bodies', row));
      await copy.write(epoch, 'relaxed', () => removed);
      this.#weight -= rows.reduce((sum, row) => sum + row.weight, 0);
    }
  }
}

const keyOf = ({ box, generation, uid }: Pick<MessageRow, 'box' | 'generation' | 'uid'>): Key => [
  box,
  generation,
  uid,
];
