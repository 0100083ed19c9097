/**
 * The parts of mailauth that are used here: most have no types, and the types of the others leave
 * out what is needed. They are not its public interface, which reads the message itself, without
 * bounds: package.json pins the version, and the tests of this folder run against it.
 */

declare module 'mailauth/lib/parse-dkim-headers.js' {
  export interface TagList {
    type?: 'DKIM' | 'ARC';
    parsed: Record<string, { value: string | number } | undefined>;
    original: Buffer;
    // Set by DkimVerifier.prepareSignature.
    /** Why the signature cannot be processed at all. */
    skip?: string;
    /** Why it cannot pass. */
    invalid?: string;
    signAlgo?: string;
    hashAlgo?: string;
    bodyCanon?: string;
    signingDomain?: string;
    selector?: string;
    /** The tag l=; `''` without one. */
    maxBodyLength?: number | '';
    // Set by us for DkimVerifier.verifySignature.
    bodyHashKey?: string;
  }
  export default function parseDkimHeaders(line: Buffer): TagList;
}

declare module 'mailauth/lib/dkim/dkim-verifier.js' {
  import type { TagList } from 'mailauth/lib/parse-dkim-headers.js';
  import type { SigningKey } from 'mailauth/lib/tools.js';

  export interface VerifierField {
    readonly key: string;
    readonly casedKey: string;
    readonly line: Buffer;
  }

  export interface BodyHash {
    /** Base64. */
    readonly hash: string;
    readonly bodyHashedBytes: number;
    readonly canonicalizedLength: number;
    readonly byteLength: number;
  }

  export interface SignatureStatus {
    readonly result: string;
    readonly comment?: string | false;
    /** Octets of the body behind what the tag l= covers. */
    readonly underSized?: number;
  }

  export interface SignatureResult {
    readonly status: SignatureStatus;
    readonly bodyHash?: string;
    readonly bodyHashExpecting?: string;
  }

  /** Where keys are asked for; the promise may be left alone. */
  export interface KeyCache {
    get(
      type: string,
      name: string,
      minBitLength: undefined,
      options: { readonly hashAlgo: string },
    ): Promise<SigningKey>;
  }

  export class DkimVerifier {
    constructor(options: { rejectRsaSha1: boolean });
    readonly headers: { parsed: readonly VerifierField[] } | false;
    readonly bodyHashes: Map<string, BodyHash>;
    readonly keyCache: KeyCache;
    prepareSignature(signature: TagList): void;
    verifySignature(signature: TagList): Promise<SignatureResult>;
  }
}

declare module 'mailauth/lib/tools.js' {
  import type { KeyObject } from 'node:crypto';

  /** IDNA for the labels that need it. */
  export function toALabel(domain: string): string;

  /** A key with what its record says of its use. */
  export interface SigningKey {
    readonly publicKey: string | KeyObject;
  }
  export function getPublicKey(
    type: string,
    name: string,
    minBitLength: undefined,
    resolver: () => Promise<string[][]>,
    options: { readonly strict: boolean; readonly hashAlgo: string },
  ): Promise<{ readonly publicKey: string }>;
}

declare module 'mailauth/lib/arc/index.js' {
  import type { KeyCache, VerifierField } from 'mailauth/lib/dkim/dkim-verifier.js';
  import type { TagList } from 'mailauth/lib/parse-dkim-headers.js';

  /** One set of a chain (RFC 8617 section 4.1). */
  export interface ArcSet {
    readonly 'arc-seal': TagList;
    readonly 'arc-message-signature': TagList;
  }

  /** Throws unless the sets are whole and in order. */
  export function getARChain(headers: { parsed: readonly VerifierField[] }): ArcSet[] | false;
  /** Throws unless every seal is good. */
  export function verifyASChain(
    data: { chain: readonly ArcSet[] },
    options: { keyCache: KeyCache },
  ): Promise<boolean>;
}

declare module 'mailauth/lib/spf/index.js' {
  export interface SPFResult {
    readonly status: { readonly result: string; readonly comment?: string | false };
    readonly lookups?: { readonly count: number; readonly void: number };
  }
  export function spf(options: {
    readonly sender: string;
    readonly helo: string;
    readonly ip: string;
    readonly mta: string;
    readonly resolver: (name: string, type: string) => Promise<readonly unknown[]>;
    readonly strict: boolean;
  }): Promise<SPFResult>;
}
