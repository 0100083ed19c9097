/** Texts of messages: from the copy where they are there, and fetched ahead while nothing else is to be done. */
import type { Content, PartialContent } from '../api-types.ts';
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

/** The message that was opened last. */
interface Near {
  readonly mailbox: string;
  readonly date: number;
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
  /** What was looked at, so that nothing is asked twice. */
  readonly #tried = new Set<string>();
  #near: Near | undefined;
  #weight: number | undefined;
  #rows = 0;

  constructor(options: BodiesOptions) {
    this.#options = options;
  }

  /** @throws ConnectionError, ApiError where the copy lacks it */
  async read(row: MessageRow, mailbox: string): Promise<Content> {
    const { copy, server, platform } = this.#options;
    const { box, generation, uid, date } = row;
    this.#near = { mailbox, date };
    const kept = (await copy.store.get('bodies', [box, generation, uid])) as BodyRow | undefined;
    if (kept) {
      // Once an hour is enough to know what was not read for long.
      if (platform.now() - kept.usedAt > 3_600_000)
        await this.#write({ ...kept, usedAt: platform.now() });
      return kept.content;
    }
    const content = await server.call('GET /mail/content', { query: { mailbox, uid } });
    const body = this.#toRow(row, content);
    if (body.weight <= LARGEST) {
      await this.#write(body);
      this.#count(body);
    }
    return content;
  }

  /** Only beside its message: one that was removed meanwhile leaves nothing. */
  async #write(body: BodyRow): Promise<void> {
    const { box, generation, uid } = body;
    await this.#options.copy.store.update('messages', [box, generation, uid], (row) =>
      row ? [put('bodies', body)] : [],
    );
  }

  #count({ weight }: BodyRow): void {
    if (this.#weight !== undefined) this.#weight += weight;
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
    const key = `${inbox?.box}/${inbox?.token}/${near?.mailbox}/${near?.date}`;
    if (!inbox || budget === 0 || this.#tried.has(key)) return undefined;
    return async () => {
      const isDone = await this.#prefetch(inbox, near, epoch);
      if (isDone) this.#tried.add(key);
    };
  }

  async #prefetch(inbox: MailboxRow, near: Near | undefined, epoch: number): Promise<boolean> {
    const { copy, budget } = this.#options;
    if ((await this.#measure()) > budget) {
      await this.#makeRoom(epoch);
      return true;
    }
    const wanted = (await this.#newest(inbox)).concat(near ? await this.#beside(near) : []);
    const missing: MessageRow[] = [];
    for (const row of wanted) {
      const { box, generation, uid, size } = row;
      const id = `${box}/${generation}/${uid}`;
      if (size > LARGEST || this.#tried.has(id)) continue;
      if (await copy.store.get('bodies', [box, generation, uid])) this.#tried.add(id);
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
    const mailbox = copy.box(batch[0]?.box)?.name;
    if (mailbox === undefined) return;
    const body = { mailbox, uids: batch.map(({ uid }) => uid) };
    const { messages, hasMore } = await server.call('POST /mail/messages', { body });
    const byUid = new Map(messages.map((message) => [message.uid, message]));
    for (const row of batch) {
      const content = byUid.get(row.uid);
      const text = content && isWhole(content) ? this.#toRow(row, content) : undefined;
      if (text && text.weight <= LARGEST) {
        await copy.write(epoch, 'relaxed', async () => {
          const now = (await copy.rows(row.box, [row.uid])).get(row.uid);
          return now?.generation === row.generation ? [put('bodies', text)] : [];
        });
        this.#count(text);
      }
      // One that is not there, or did not fit as the first: it is fetched when it is read.
      if (!hasMore || content || messages.length === 0)
        this.#tried.add(`${row.box}/${row.generation}/${row.uid}`);
    }
  }

  async #newest(inbox: MailboxRow): Promise<MessageRow[]> {
    const query = { ...byDate(inbox), reverse: true, limit: 1000 };
    const rows = (await this.#options.copy.store.range(query)) as MessageRow[];
    return rows.filter(({ flags }, index) => index < NEWEST || !isSeen(flags));
  }

  async #beside({ mailbox, date }: Near): Promise<MessageRow[]> {
    const { copy } = this.#options;
    const row = copy.mailbox(mailbox);
    if (!row) return [];
    const query = { ...byDate(row), limit: NEAR };
    const older = await copy.store.range({ ...query, before: [date, 0], reverse: true });
    const newer = await copy.store.range({ ...query, after: [date, 0] });
    return [...older, ...newer] as MessageRow[];
  }

  /** Another tab led meanwhile, and kept texts: they are counted anew. */
  forget(): void {
    this.#weight = undefined;
  }

  /** Octets of all bodies of the account, counted once. */
  async #measure(): Promise<number> {
    const { copy } = this.#options;
    if (this.#weight !== undefined) return this.#weight;
    let sum = 0;
    for (let after: Key | undefined; ; ) {
      const query = { table: 'bodies', index: 'byUse', prefix: [copy.account], limit: 50 } as const;
      const rows = (await copy.store.range({ ...query, after })) as BodyRow[];
      for (const { weight } of rows) sum += weight;
      const last = rows.at(-1);
      if (!last) break;
      after = [last.usedAt];
    }
    this.#weight = sum;
    return sum;
  }

  /** What was not read for longest goes, until a fifth is free. */
  async #makeRoom(epoch: number): Promise<void> {
    const { copy, budget } = this.#options;
    for (let weight = this.#weight ?? 0; weight > 0.8 * budget; ) {
      const query = { table: 'bodies', index: 'byUse', prefix: [copy.account], limit: 20 } as const;
      const rows = (await copy.store.range(query)) as BodyRow[];
      if (rows.length === 0) break;
      const removed = rows.map((row) => removal('bodies', row));
      await copy.write(epoch, 'relaxed', () => removed);
      weight -= rows.reduce((sum, row) => sum + row.weight, 0);
      this.#weight = Math.max(0, weight);
    }
  }
}

function isWhole(content: PartialContent): content is Content {
  return (
    content.uid !== undefined && content.attachments !== undefined && content.envelope !== undefined
  );
}
