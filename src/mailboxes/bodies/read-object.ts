/**
 * Checks what an S3 server answers: an object that is read to its end is what was stored, also where an answer was
 * cut or stalled on the way. Errors become one line without secrets.
 */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { type GetObjectCommandOutput, type S3Client, S3ServiceException } from '@aws-sdk/client-s3';
import { fileErrorCode } from '../../platform/files/files.ts';
import { BodyLost, StoreUnavailable, type WantedBytes } from './body-store.ts';

export interface ObjectSource {
  /** The object's name for the operator. */
  readonly name: string;
  /**
   * Requests the object, or those of its bytes that a Range header names.
   *
   * @throws BodyLost, StoreUnavailable
   */
  readonly open: (range: string | undefined) => Promise<GetObjectCommandOutput>;
  /** Milliseconds from one piece to the next. */
  readonly deadlineMs: number;
  /** Answers in a row that may break off without a single octet. */
  readonly attempts: number;
}

/** Milliseconds to wait after an answer that broke off; longer after each one. */
const REST_MS = 100;

/**
 * Streams an object, or some bytes of it. An answer that breaks off is requested again from that point: objects
 * never change. The last piece of a whole object is yielded only after the digest of all of it is verified.
 *
 * @throws BodyLost where the object is not what its row says; StoreUnavailable
 */
export async function* readObject(
  { name, open, deadlineMs, attempts }: ObjectSource,
  { start, end, size }: WantedBytes,
): AsyncGenerator<Uint8Array> {
  const isWhole = start === 0 && end === size;
  const hash = createHash('sha256');
  let digest: string | undefined;
  let held: Uint8Array | undefined;
  let position = start;
  let failures = 0;
  while (position < end) {
    const range = isWhole && position === 0 ? undefined : `bytes=${position}-${end - 1}`;
    const answer = await open(range);
    const body = answer.Body;
    if (!(body instanceof Readable)) throw new Error('the body of an answer is no stream');
    // RFC 9110 section 14.4
    const [found, expected] = range
      ? [answer.ContentRange, `bytes ${position}-${end - 1}/${size}`]
      : [answer.ContentLength?.toString(), String(size)];
    if (found !== expected) {
      body.destroy();
      // A proxy that passes an answer on without its length says nothing of the object.
      if (found === undefined) throw new StoreUnavailable(`${name} came without its length`);
      throw new BodyLost(
        `${name} is not as long as its row says: ${found} octets, not ${expected}`,
      );
    }
    digest ??= answer.Metadata?.sha256;
    let cut: unknown;
    try {
      for await (const chunk of inTime(body, deadlineMs)) {
        position += chunk.length;
        failures = 0;
        if (isWhole) hash.update(chunk);
        if (held) yield held;
        held = chunk;
      }
    } catch (error) {
      cut = error;
    }
    if (position >= end) break;
    if (++failures >= attempts) throw unavailable(name, cut);
    await pause(REST_MS * failures);
  }
  if (isWhole && digest !== undefined && hash.digest('hex') !== digest) {
    throw new BodyLost(`${name} is damaged: it has another digest than when it was put there`);
  }
  if (held) yield held;
}

/** Ends a stream that yields nothing for too long; the time that the reader takes does not count. */
async function* inTime(body: Readable, ms: number): AsyncGenerator<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]();
  try {
    for (;;) {
      const timer = setTimeout(() => body.destroy(new Error('nothing came in time')), ms);
      const next = await pieces.next().finally(() => clearTimeout(timer));
      if (next.done) return;
      yield next.value;
    }
  } finally {
    body.destroy();
  }
}

/**
 * Refuses pages of HTML. A proxy whose S3 server is away may answer with one, and a status that would say that an object
 * was put, removed, or is not there. No S3 server does that.
 */
export function refusePages({ middlewareStack }: S3Client, location: string): void {
  middlewareStack.add(
    (next) => async (request) => {
      const answered = await next(request);
      const { statusCode: status = 0, headers } = answered.response as Partial<HttpAnswer>;
      const isBelieved = status < 300 || status === 404;
      if (isBelieved && /^text\/html\b/i.test(headers?.['content-type'] ?? '')) {
        throw new StoreUnavailable(`${location} answered with a page of HTML (${status})`);
      }
      return answered;
    },
    // Next to the connection: before anything reads the answer.
    { name: 'refusePages', step: 'deserialize', priority: 'low' },
  );
}

interface HttpAnswer {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
}

function statusOf(error: unknown): number | undefined {
  return error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined;
}

/** Whether the server answered with this status. */
export function hasStatus(error: unknown, ...statuses: number[]): boolean {
  const status = statusOf(error);
  return status !== undefined && statuses.includes(status);
}

/** Whether an error says that the object does not exist, and not that the bucket does not. */
export function isMissingObject(error: unknown): boolean {
  return hasStatus(error, 404) && error instanceof Error && error.name !== 'NoSuchBucket';
}

/** The reason in an error of the library, without parts of the request. */
export function unavailable(location: string, error: unknown): StoreUnavailable | BodyLost {
  if (error instanceof StoreUnavailable || error instanceof BodyLost) return error;
  const status = statusOf(error);
  const said = error instanceof Error ? (fileErrorCode(error) ?? error.name) : 'cut short';
  // The name comes from the server's answer.
  const reason = /^[A-Za-z_]{1,60}$/.test(said) ? said : 'an error';
  // Any other fault of TLS may pass.
  if (reason === 'EPROTO' && /wrong version number/.test(String(error))) {
    return new StoreUnavailable(
      `${location} answered without TLS: does its URL begin with http:?`,
      true,
    );
  }
  // The first octets of an answer are none of HTTP: another server, or one that expects TLS.
  if (reason === 'HPE_INVALID_CONSTANT') {
    const asked = location.startsWith('http:') ? ', or does its URL begin with https:?' : '';
    return new StoreUnavailable(`${location} is no S3 server${asked}`, true);
  }
  if (status === undefined) return new StoreUnavailable(`${location} does not answer (${reason})`);
  const isRefusal = status >= 300 && status < 500 && status !== 408 && status !== 429;
  return new StoreUnavailable(`${location} answered ${reason} (${status})`, isRefusal);
}
