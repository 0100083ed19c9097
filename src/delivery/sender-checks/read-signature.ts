/** One signature of a header: a DKIM-Signature, or the ARC-Message-Signature that is like it. */
import parseTagList, { type TagList } from 'mailauth/lib/parse-dkim-headers.js';
import { bodyHashKey, type WantedHash } from './body-hashes.ts';
import type { HeaderField } from './header.ts';
import { toAsciiName } from './host-names.ts';
import type { MessageVerifier } from './message-verifier.ts';
import type { DkimResult } from './verdicts.ts';

/** Octets of a field that holds a signature. */
const MAX_FIELD = 16 * 1024;
/** White space in a row within it: mailauth's time for that grows with the square. */
const LONG_SPACE = /[ \t\r\n]{101}/;
/** Names in the tag h=, each of which is searched among all fields. */
const MAX_SIGNED_FIELDS = 500;

/** A signature that was read. */
export interface Signature {
  /** Lower case, IDNA-encoded. */
  readonly domain: string;
  readonly selector: string;
  /** Where its key is. */
  readonly keyName: string;
  /** Names of the signed fields in lower case, as often as each is signed. */
  readonly signedFields: readonly string[];
  readonly wantedHash: WantedHash;
  /** As mailauth verifies it. */
  readonly list: TagList;
  /** Why it is not verified. */
  readonly refusal: { readonly result: DkimResult; readonly comment: string } | undefined;
}

/** Whether a field is one that mailauth reads in reasonable time. */
export function isReadable({ line }: HeaderField): boolean {
  return line.length <= MAX_FIELD && !LONG_SPACE.test(line.toString('latin1'));
}

/** The text of one tag; `''` where it is missing. */
export function tagOf(list: TagList, name: string): string {
  return String(list.parsed[name]?.value ?? '');
}

function refusalOf(list: TagList, signed: readonly string[]): Signature['refusal'] {
  const comment = list.skip ?? list.invalid;
  if (comment !== undefined) return { result: 'neutral', comment };
  // mailauth would take its own list for a missing h=, which RFC 6376 section 3.5 requires.
  if (signed.length === 0) return { result: 'neutral', comment: 'no signed fields' };
  // RFC 8301 section 3.1.
  if (list.hashAlgo === 'sha1') return { result: 'policy', comment: 'rsa-sha1' };
  if (signed.length <= MAX_SIGNED_FIELDS) return undefined;
  return { result: 'policy', comment: 'too many signed fields' };
}

/** Reads the tags of a signature and checks what can be checked without its key. */
export function readSignature(verifier: MessageVerifier, list: TagList): Signature {
  verifier.prepareSignature(list);
  const { selector = '', signingDomain = '', bodyCanon, maxBodyLength } = list;
  const wantedHash: WantedHash = {
    canon: bodyCanon === 'relaxed' ? 'relaxed' : 'simple',
    length: typeof maxBodyLength === 'number' ? maxBodyLength : undefined,
  };
  list.bodyHashKey = bodyHashKey(wantedHash);
  const signedFields = tagOf(list, 'h').toLowerCase().split(':').filter(Boolean);
  return {
    // A signing domain may be written with U-labels (RFC 8616 section 3). IDNA is mailauth's here,
    // so that the domain whose key is asked for is the one that is compared with the author's.
    domain: toAsciiName(signingDomain).toLowerCase().replace(/\.$/, ''),
    selector,
    keyName: toAsciiName(`${selector}._domainkey.${signingDomain}`),
    signedFields,
    wantedHash,
    list,
    refusal: refusalOf(list, signedFields),
  };
}

/** Reads a DKIM-Signature field. */
export function readDkimSignature(verifier: MessageVerifier, field: HeaderField): Signature {
  const list = parseTagList(field.line);
  list.type = 'DKIM';
  return readSignature(verifier, list);
}
