/**
 * The disks that power cuts may leave. Of what was written to a file after its last sync began, any part may
 * be there, in blocks of 4 KiB and at times in sectors of 512 octets; the order of the writes counts for
 * nothing. Files that came or went since the folder was synced are or are not there, in order. (What SQLite
 * does to `-shm` counts for nothing: it is made anew at each start.)
 */
import type { Event } from './events.ts';

export interface CutDisk {
  /** For messages. */
  readonly what: string;
  readonly database: Buffer;
  /** Undefined where there is no file. */
  readonly log: Buffer | undefined;
  /** The last transaction that counted as written. */
  readonly acknowledged: number;
}

/** Cuts at random moments, besides those around the syncs of the database file. */
const RANDOM_CUTS = 60;
const SECTOR = 512;
const BLOCK = 4_096;

/** A small generator of random numbers: the same cuts each time. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Which part of what is not synced yet is on the disk. */
type Chooser = (size: number) => boolean;

/** One file: what is safe, and what was done to it since. */
class CutFile {
  #safe: Buffer;
  #size: number;
  readonly #pending: Event[] = [];

  constructor(content: Buffer) {
    this.#safe = content;
    this.#size = content.length;
  }

  get pending(): number {
    return this.#pending.length;
  }

  add(event: Event): void {
    this.#pending.push(event);
  }

  /** The first of what was done is safe from now on. */
  settle(count: number): void {
    for (const event of this.#pending.splice(0, count)) this.#do(event, () => true, BLOCK);
  }

  /** What a cut leaves. */
  cut(chooses: Chooser, block: number): Buffer {
    const copy = new CutFile(Buffer.from(this.#safe.subarray(0, this.#size)));
    for (const event of this.#pending) copy.#do(event, chooses, block);
    return copy.#safe.subarray(0, copy.#size);
  }

  #do({ kind, offset, data }: Event, chooses: Chooser, block: number): void {
    if (kind === 'truncate') {
      if (chooses(0)) this.#resize(offset);
      return;
    }
    for (let at = 0; at < data.length; ) {
      // To the next boundary of a block of the file.
      const end = Math.min(data.length, at + block - ((offset + at) % block));
      if (chooses(end - at)) {
        if (offset + end > this.#size) this.#resize(offset + end);
        data.copy(this.#safe, offset + at, at, end);
      }
      at = end;
    }
  }

  #resize(size: number): void {
    if (size > this.#safe.length) {
      const larger = Buffer.alloc(size * 2);
      this.#safe.copy(larger, 0, 0, this.#size);
      this.#safe = larger;
    }
    if (size < this.#size) this.#safe.fill(0, size, this.#size);
    this.#size = size;
  }
}

/** A run up to some moment. */
class Disk {
  readonly database: CutFile;
  /** The log's file and those that were there before it, the newest last; undefined where it was removed. */
  #logs: (CutFile | undefined)[] = [undefined];
  /** Syncs under way, by file and thread: what was done to the file when they began. */
  readonly #syncs = new Map<
    string,
    { readonly file: CutFile | undefined; readonly count: number }
  >();
  acknowledged = 0;

  constructor(first: Buffer) {
    this.database = new CutFile(Buffer.from(first));
  }

  /** The log's files that a cut may leave, the newest last. */
  get logs(): readonly (CutFile | undefined)[] {
    return this.#logs;
  }

  run(event: Event): void {
    const { kind, suffix, offset, data } = event;
    if (suffix === '-acks') this.acknowledged = Math.max(this.acknowledged, Number(data));
    else if (kind === 'begin') this.#begin(suffix, offset);
    else if (kind === 'end') this.#end(suffix, offset);
    else if (suffix === '-wal') this.#changeLog(event);
    else if (suffix === '') this.database.add(event);
  }

  #changeLog(event: Event): void {
    if (event.kind === 'unlink') this.#logs.push(undefined);
    else {
      if (!this.#logs.at(-1)) this.#logs.push(new CutFile(Buffer.alloc(0)));
      this.#logs.at(-1)?.add(event);
    }
  }

  #begin(suffix: string, thread: number): void {
    const file = this.#fileOf(suffix);
    const count = suffix === '/' ? this.#logs.length : (file?.pending ?? 0);
    this.#syncs.set(`${suffix} ${thread}`, { file, count });
  }

  #end(suffix: string, thread: number): void {
    const sync = this.#syncs.get(`${suffix} ${thread}`);
    if (!sync) throw new Error('a sync ended that never began');
    this.#syncs.delete(`${suffix} ${thread}`);
    if (suffix === '/') this.#logs = this.#logs.slice(sync.count - 1);
    else sync.file?.settle(sync.count);
  }

  #fileOf(suffix: string): CutFile | undefined {
    return suffix === '' ? this.database : this.#logs.at(-1);
  }
}

/** All disks that are looked at, of cuts at moments of a run that began with `first`. */
export function* cutPower(first: Buffer, events: readonly Event[]): Generator<CutDisk> {
  const random = randomNumbers(1);
  const moments = new Set(
    Array.from({ length: RANDOM_CUTS }, () => Math.floor(random() * events.length)),
  );
  for (const [index, { kind, suffix, offset }] of events.entries()) {
    const aroundCheckpoint = suffix === '' && kind !== 'write';
    const aroundNewLog =
      suffix === '-wal' && ((kind === 'write' && offset === 0) || kind === 'unlink');
    if (!aroundCheckpoint && !aroundNewLog) continue;
    for (const moment of [index - 1, index, index + 3]) moments.add(moment);
  }
  const disk = new Disk(first);
  for (const [index, event] of events.entries()) {
    disk.run(event);
    if (moments.has(index)) yield* cutsOf(disk, index, random);
  }
}

function* cutsOf(disk: Disk, index: number, random: () => number): Generator<CutDisk> {
  const all = () => true;
  const none = () => false;
  const some = () => random() < 0.5;
  const ways = {
    'nothing that was not synced': [none, none, BLOCK],
    'all but what was not synced of the database': [none, all, BLOCK],
    'all but what was not synced of the log': [all, none, BLOCK],
    'some blocks': [some, some, BLOCK],
    'some sectors': [some, some, SECTOR],
  } as const;
  for (const log of new Set(disk.logs)) {
    for (const [name, [ofDatabase, ofLog, block]] of Object.entries(ways)) {
      yield {
        what: `cut after ${index}, which left ${name}`,
        database: disk.database.cut(ofDatabase, block),
        log: log?.cut(ofLog, block),
        acknowledged: disk.acknowledged,
      };
    }
  }
}
