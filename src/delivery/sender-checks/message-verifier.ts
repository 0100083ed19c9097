/** The verifier of mailauth, for one message. */
import { type BodyHash, DkimVerifier, type KeyCache } from 'mailauth/lib/dkim/dkim-verifier.js';
import type { HeaderField } from './header.ts';

/** The part of mailauth's verifier that checks a signature that was read. */
export type MessageVerifier = Pick<
  DkimVerifier,
  'prepareSignature' | 'verifySignature' | 'bodyHashes' | 'keyCache'
>;

/** Never given a message; all verifiers inherit its settings. */
const settings = new DkimVerifier({ rejectRsaSha1: true });

/**
 * Makes a verifier without the stream that one of mailauth's is as well. Every stream assigns a closure
 * to a property of its own, and V8 makes such closures in the old part of the heap: what they refer to,
 * here the whole source of the message, stays until a full collection.
 */
export function createVerifier(
  fields: readonly HeaderField[],
  keyCache: KeyCache,
): MessageVerifier {
  const own = {
    headers: { parsed: fields },
    bodyHashes: new Map<string, BodyHash>(),
    keyCache,
    // What has expired is judged by it.
    curTime: new Date(),
  };
  return Object.assign(Object.create(settings) as DkimVerifier, own);
}
