/**
 * Compresses answers for clients that accept it (RFC 9110 section 12.5.3). Not compressed are short ones, those that
 * may be requested in ranges, attachments (mostly compressed already), and answers with a password or a token.
 *
 * `@fastify/compress` was tried for this. It would send a message's source that begins like a gzip file uncompressed,
 * under a header that says it is compressed, and cannot exclude such sources.
 */
import { pipeline, Readable } from 'node:stream';
import { promisify } from 'node:util';
import {
  type BrotliOptions,
  brotliCompress,
  type CompressCallback,
  constants,
  createBrotliCompress,
  createGzip,
  gzip,
} from 'node:zlib';
import { negotiate } from '@fastify/accept-negotiator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Api } from './route-tools.ts';

/** Below this, in bytes, the answer fits into one packet uncompressed. */
const WORTH_IT = 1024;

const compressible = /^(?:application\/(?:problem\+)?json|message\/rfc822|text\/(?!event-stream))/;

/** As fast as gzip and smaller; a window of 256 KiB, since each answer under way holds one. */
const brotli: BrotliOptions = {
  params: {
    [constants.BROTLI_PARAM_QUALITY]: 4,
    [constants.BROTLI_PARAM_LGWIN]: 18,
    [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
  },
};

/** Each coding, for whole answers and for streams; Node runs both on other threads, in short turns. */
const codings = {
  br: {
    whole: promisify((content: string | Buffer, done: CompressCallback) =>
      brotliCompress(content, brotli, done),
    ),
    stream: () => createBrotliCompress(brotli),
  },
  gzip: { whole: promisify<string | Buffer, Buffer>(gzip), stream: () => createGzip() },
};
type Coding = keyof typeof codings;
const offered: Coding[] = ['br', 'gzip'];

/**
 * What is compressed at a time: octets of whole answers, of which one may be longer, and streams. What comes on top is sent as it
 * is: the system's four threads do this, and a commit waits for its fsync on one of them.
 */
const AT_ONCE = { octets: 1024 * 1024, streams: 16 };

/** Compresses the answers of all routes. */
export function compressAnswers(app: Api): void {
  let octets = 0;
  let streams = 0;
  app.addHook('onSend', (request, reply, payload: unknown, done) => {
    const coding = codingFor(request, reply);
    if (coding === undefined) return done(null, payload);
    if (payload instanceof Readable) {
      if (streams >= AT_ONCE.streams) return done(null, payload);
      streams++;
      announce(reply, coding);
      reply.removeHeader('content-length');
      const compressed = codings[coding].stream();
      // The reader of the compressed stream gets the error of either stream.
      pipeline(payload, compressed, () => {
        streams--;
      });
      return done(null, compressed);
    }
    const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload);
    const length = isWhole ? Buffer.byteLength(payload) : 0;
    const isCrowded = octets > 0 && octets + length > AT_ONCE.octets;
    if (!isWhole || length < WORTH_IT || isCrowded) return done(null, payload);
    octets += length;
    compressWhole(coding, payload)
      .finally(() => {
        octets -= length;
      })
      .then((compressed) => {
        announce(reply, coding);
        reply.header('content-length', compressed.length);
        done(null, compressed);
      })
      // Also where the answer could not be written: no other code gets this error.
      .catch((error: Error) => reply.send(error));
  });
}

/** Of answers whose buffer is the same each time, such as the description of the API, which takes 10 ms. */
const compressedOnce = new WeakMap<Buffer, Partial<Record<Coding, Promise<Buffer>>>>();

function compressWhole(coding: Coding, content: string | Buffer): Promise<Buffer> {
  if (typeof content === 'string') return codings[coding].whole(content);
  const kept = compressedOnce.get(content) ?? {};
  compressedOnce.set(content, kept);
  kept[coding] ??= codings[coding].whole(content);
  // One that failed, where there was no memory for example, is tried again.
  kept[coding].catch(() => delete kept[coding]);
  return kept[coding];
}

/** The coding for an answer that may be compressed; undefined where it is not. */
function codingFor(request: FastifyRequest, reply: FastifyReply): Coding | undefined {
  const accepted = request.headers['accept-encoding'];
  if (accepted === undefined || request.method === 'HEAD') return undefined;
  if (request.routeOptions.config.compress === false) return undefined;
  if (!compressible.test(String(reply.getHeader('content-type')))) return undefined;
  const isTaken = ['content-encoding', 'content-range', 'accept-ranges'].some((name) =>
    reply.hasHeader(name),
  );
  return isTaken ? undefined : (negotiate(accepted, offered) ?? undefined);
}

function announce(reply: FastifyReply, coding: Coding): void {
  reply.header('content-encoding', coding);
  const vary = reply.getHeader('vary');
  reply.header('vary', vary === undefined ? 'accept-encoding' : `${String(vary)}, accept-encoding`);
  const etag = reply.getHeader('etag');
  // RFC 9110 section 8.8.1: a strong tag stands for identical octets.
  if (typeof etag === 'string' && !etag.startsWith('W/')) reply.header('etag', `W/${etag}`);
}
