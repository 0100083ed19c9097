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
 * Makes a verifier without the stream that one of mailauth's is as well. A stream that is never ended
 * outlives the quick collections, and what it refers to with it: for each message its whole source,
 * until a full collection, of which there were three a second under load.
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
