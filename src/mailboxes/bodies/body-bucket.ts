import { createHash } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { LRUCache } from 'lru-cache';
import pLimit from 'p-limit';
import { when } from '../../platform/errors/errors.ts';
import { ensureFolder, freeBytesAt } from '../../platform/files/files.ts';
import { entries } from '../../platform/memory/memory.ts';
import { readRange } from './body-folder.ts';
import {
  BodyLost,
  type BodyStore,
  isBodyName,
  type NewBody,
  type Note,
  newBodyName,
  QUARANTINE,
  StoreUnavailable,
  type WantedBytes,
} from './body-store.ts';
import { hasStatus, isMissingObject, readObject, refusePages, unavailable } from './read-object.ts';

/** The address of a bucket, and the key to it. */
export interface BucketAddress {
  /** Scheme, host and port. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface BucketOptions extends BucketAddress {
  /** Absolute path of a folder for bodies that are not uploaded yet. */
  readonly spool: string;
  /** Milliseconds for one answer; a connection gets a third of it. */
  readonly deadlineMs?: number;
}

/** Milliseconds for one answer of the server. */
const DEADLINE_MS = 10_000;
/** How often a request is made in all where no answer comes, or one of 5xx. */
const ATTEMPTS = 3;
/** The slowest upload in bytes per second, in addition to the deadlines of its requests. */
const SLOWEST_UPLOAD = 1_000_000;
/** Octets of a part of an upload: the least that S3 takes. What is smaller goes in one request. */
const PART_SIZE = 5 * 1024 * 1024;
/** Uploads at once: each holds one part in memory. */
const UPLOADS_AT_ONCE = 8;
/** Small requests at once that one call makes. */
const REQUESTS_AT_ONCE = 16;
/** Every slow reader holds a connection. The HTTP server limits the readers; a limit of our own would make others wait. */
const CONNECTIONS = Number.POSITIVE_INFINITY;

const IN_QUARANTINE = `${QUARANTINE}/`;

/** Where a body may be. The first place once more: a sweep may move it back between the two. */
function keysOf(name: string): string[] {
  return [name, `${IN_QUARANTINE}${name}`, name];
}

function isBefore(time: Date | undefined, before: number): boolean {
  return time !== undefined && time.getTime() < before;
}

export class BodyBucket implements BodyStore {
  readonly isRemote = true;
  readonly location: string;
  readonly #bucket: string;
  readonly #spool: string;
  readonly #client: S3Client;
  readonly #deadlineMs: number;
  readonly #uploads = pLimit(UPLOADS_AT_ONCE);
  /** Bodies that were damaged when they were read last. A mail program whose answer breaks off asks for the same for ever. */
  readonly #damaged = new LRUCache<string, true>(entries(1_000));

  constructor(options: BucketOptions) {
    const { endpoint, bucket, region, accessKeyId, secretAccessKey } = options;
    const { deadlineMs = DEADLINE_MS } = options;
    this.location = `${endpoint}/${bucket}`;
    this.#bucket = bucket;
    this.#spool = options.spool;
    this.#deadlineMs = deadlineMs;
    this.#client = new S3Client({
      endpoint,
      region,
      credentials: { accessKeyId, secretAccessKey },
      forcePathStyle: true,
      maxAttempts: ATTEMPTS,
      // Not every server accepts the newer checksums; requests are signed with their digest anyway.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      requestHandler: {
        connectionTimeout: Math.ceil(deadlineMs / 3),
        requestTimeout: deadlineMs,
        throwOnRequestTimeout: true,
        httpAgent: { maxSockets: CONNECTIONS },
        httpsAgent: { maxSockets: CONNECTIONS },
      },
    });
    refusePages(this.#client, this.location);
  }

  async create(name = newBodyName()): Promise<NewBody> {
    await this.#makeSpool();
    const path = join(this.#spool, name.replace('/', '-'));
    const handle = await open(path, 'wx+', 0o600);
    // The unlinked file disappears when it is closed, also after a kill: nothing is left to remove.
    await unlink(path);
    return new SpooledBody(name, handle, (size, sha256) =>
      this.#uploads(() => this.#upload(name, handle, { size, sha256 })),
    );
  }

  async #upload(
    key: string,
    handle: FileHandle,
    { size, sha256 }: { size: number; sha256: string },
  ): Promise<void> {
    const abortController = new AbortController();
    const ms = this.#deadlineMs * ATTEMPTS + (size / SLOWEST_UPLOAD) * 1000;
    const timer = setTimeout(() => abortController.abort(), ms);
    const upload = new Upload({
      client: this.#client,
      params: {
        ...this.#at(key),
        Body: Readable.from(readRange(handle, 0, size)),
        ContentType: 'message/rfc822',
        Metadata: { sha256 },
      },
      queueSize: 1,
      partSize: PART_SIZE,
      abortController,
    });
    try {
      const { ETag } = await upload.done();
      // Of several parts each has one; not every server says that of the whole.
      if (ETag === undefined && size < PART_SIZE) {
        throw new StoreUnavailable(`${this.location} did not say that it has an object`);
      }
    } catch (error) {
      throw unavailable(this.location, error);
    } finally {
      clearTimeout(timer);
    }
  }

  async *read(name: string, wanted: WantedBytes): AsyncGenerator<Uint8Array> {
    const isWhole = wanted.start === 0 && wanted.end === wanted.size;
    try {
      // Read once for its digest, before anything is passed on: somebody may have put it back.
      if (isWhole && this.#damaged.has(name)) {
        for await (const _ of this.#stream(name, wanted));
        this.#damaged.delete(name);
      }
      yield* this.#stream(name, wanted);
    } catch (error) {
      if (isWhole && error instanceof BodyLost) this.#damaged.set(name, true);
      throw error;
    }
  }

  #stream(name: string, wanted: WantedBytes): AsyncGenerator<Uint8Array> {
    const open = (range: string | undefined) => this.#open(name, range);
    const source = { name: `${this.location}/${name}`, open, attempts: ATTEMPTS };
    return readObject({ ...source, deadlineMs: this.#deadlineMs }, wanted);
  }

  /** @throws BodyLost, StoreUnavailable */
  async #open(name: string, range: string | undefined): Promise<GetObjectCommandOutput> {
    for (const key of keysOf(name)) {
      const wanted = { ...this.#at(key), ...(range && { Range: range }) };
      try {
        return await this.#client.send(new GetObjectCommand(wanted));
      } catch (error) {
        if (hasStatus(error, 416)) throw new BodyLost(`${this.location}/${name} is cut short`);
        if (!isMissingObject(error)) throw unavailable(this.location, error);
      }
    }
    throw new BodyLost(`${this.location}/${name} is missing`);
  }

  async has(name: string): Promise<boolean> {
    for (const key of keysOf(name)) {
      if ((await this.age(key, Date.now())) !== undefined) return true;
    }
    return false;
  }

  async remove(names: readonly string[]): Promise<void> {
    await this.#forEach(names, (name) => this.#delete(name));
  }

  /** Of the disk where bodies wait until they are whole. */
  async freeBytes(): Promise<number> {
    await this.#makeSpool();
    return freeBytesAt(this.#spool);
  }

  async readNote(note: Note): Promise<string> {
    return this.#ask(async () => {
      const abortSignal = AbortSignal.timeout(this.#deadlineMs);
      const asked = this.#client.send(new GetObjectCommand(this.#at(note)), { abortSignal });
      const found = await asked.catch(when(isMissingObject, undefined));
      return ((await found?.Body?.transformToString()) ?? '').slice(0, 100).trim();
    });
  }

  /** Of two new databases that start at the same time only one gets the bucket, if the server supports this. */
  async writeNote(note: Note, text: string): Promise<void> {
    const object = { ...this.#at(note), Body: Buffer.from(`${text}\n`) };
    const condition = note === 'store-id' ? { IfNoneMatch: '*' } : {};
    await this.#ask(async () => {
      try {
        await this.#client.send(new PutObjectCommand({ ...object, ...condition }));
      } catch (error) {
        if (hasStatus(error, 501)) await this.#client.send(new PutObjectCommand(object));
        else if (!hasStatus(error, 409, 412)) throw error;
      }
    });
  }

  removeNote(note: Note): Promise<void> {
    return this.#delete(note);
  }

  async isEmpty(): Promise<boolean> {
    for (const prefix of ['', IN_QUARANTINE]) {
      for await (const names of this.#list(prefix)) if (names.length > 0) return false;
    }
    return true;
  }

  list(): AsyncGenerator<string[]> {
    return this.#list('');
  }

  /** An object's time is that of the copy to quarantine. */
  listQuarantined(before: number): AsyncGenerator<string[]> {
    return this.#list(IN_QUARANTINE, before);
  }

  /** A page of the bucket at a time: memory stays flat with millions of bodies. */
  async *#list(prefix: string, before = Number.POSITIVE_INFINITY): AsyncGenerator<string[]> {
    let ContinuationToken: string | undefined;
    do {
      const request = { Bucket: this.#bucket, Prefix: prefix, ContinuationToken };
      const page = await this.#ask(() => this.#client.send(new ListObjectsV2Command(request)));
      // Without a time it counts as new: nothing is removed because a server leaves something out.
      const found = (page.Contents ?? []).filter(
        ({ LastModified }) => before === Number.POSITIVE_INFINITY || isBefore(LastModified, before),
      );
      yield found.map(({ Key = '' }) => Key.slice(prefix.length)).filter(isBodyName);
      ContinuationToken = page.IsTruncated ? page.NextContinuationToken : undefined;
    } while (ContinuationToken !== undefined);
  }

  /** A copy and a removal: where a crash leaves both objects, the next sweep moves the body again. */
  async quarantine(names: readonly string[]): Promise<number> {
    let moved = 0;
    await this.#forEach(names, async (name) => {
      moved += Number(await this.#move(name, `${IN_QUARANTINE}${name}`));
    });
    return moved;
  }

  restore(name: string): Promise<boolean> {
    return this.#move(`${IN_QUARANTINE}${name}`, name);
  }

  async removeQuarantined(names: readonly string[]): Promise<void> {
    await this.#forEach(names, (name) => this.#delete(`${IN_QUARANTINE}${name}`));
  }

  /** Multipart uploads that were cut short use space until they are aborted. */
  async sweepUnfinished(before: number): Promise<void> {
    let marker: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } = {};
    for (;;) {
      const request = { Bucket: this.#bucket, ...marker };
      const page = await this.#ask(() =>
        this.#client.send(new ListMultipartUploadsCommand(request)),
      );
      const old = (page.Uploads ?? []).filter(
        ({ Key = '', Initiated }) => isBodyName(Key) && Initiated && Initiated.getTime() < before,
      );
      await this.#forEach(old, async ({ Key, UploadId }) => {
        const upload = { Bucket: this.#bucket, Key, UploadId };
        const aborted = this.#client.send(new AbortMultipartUploadCommand(upload));
        await aborted.catch(when(isMissingObject, undefined));
      });
      if (!page.IsTruncated || page.NextKeyMarker === undefined) return;
      marker = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker };
    }
  }

  close(): void {
    this.#client.destroy();
  }

  /** In a data folder that exists: one that is gone is not made again. */
  #makeSpool(): Promise<void> {
    return ensureFolder(this.#spool, dirname(this.#spool));
  }

  #at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: key };
  }

  async age(key: string, now: number): Promise<number | undefined> {
    return this.#ask(async () => {
      const asked = this.#client.send(new HeadObjectCommand(this.#at(key)));
      const found = await asked.catch(when(isMissingObject, undefined));
      // Without a time it counts as new: nothing is removed because a server leaves something out.
      return found && now - (found.LastModified?.getTime() ?? now);
    });
  }

  /** @returns false where there is no such object */
  async #move(from: string, to: string): Promise<boolean> {
    const copy = { ...this.#at(to), CopySource: `${this.#bucket}/${from}` };
    const copied = await this.#ask(async () => {
      const made = this.#client.send(new CopyObjectCommand(copy)).then(() => true);
      return made.catch(when(isMissingObject, false));
    });
    if (copied) await this.#delete(from);
    return copied;
  }

  /** An object that does not exist is no error, as in S3 itself. */
  async #delete(key: string): Promise<void> {
    await this.#ask(() => this.#client.send(new DeleteObjectCommand(this.#at(key))));
  }

  async #forEach<Item>(
    items: readonly Item[],
    act: (item: Item) => Promise<unknown>,
  ): Promise<void> {
    await this.#ask(() => pLimit(REQUESTS_AT_ONCE).map(items, act));
  }

  /** @throws StoreUnavailable in place of the library's error */
  async #ask<Answer>(request: () => Promise<Answer>): Promise<Answer> {
    try {
      return await request();
    } catch (error) {
      throw unavailable(this.location, error);
    }
  }
}

/** A body on its way into the bucket: a file until it is whole. */
export class SpooledBody implements NewBody {
  readonly name: string;
  readonly #handle: FileHandle;
  readonly #upload: (size: number, sha256: string) => Promise<void>;
  readonly #hash = createHash('sha256');
  #size = 0;

  constructor(
    name: string,
    handle: FileHandle,
    upload: (size: number, sha256: string) => Promise<void>,
  ) {
    this.name = name;
    this.#handle = handle;
    this.#upload = upload;
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#hash.update(chunk);
    await this.#handle.writeFile(chunk);
    this.#size += chunk.length;
  }

  async finish(): Promise<void> {
    await this.#upload(this.#size, this.#hash.digest('hex'));
    await this.#handle.close();
  }

  async abandon(): Promise<void> {
    await this.#handle.close().catch(() => {});
  }
}
