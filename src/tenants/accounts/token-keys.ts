/** The keys that sign mailbox tokens (JWT, RFC 7519), and the claims of a verified token. */
import { createPublicKey, createSecretKey, type KeyObject } from 'node:crypto';
import {
  createRemoteJWKSet,
  decodeProtectedHeader,
  errors,
  type JWTPayload,
  type JWTVerifyOptions,
  jwtVerify,
  type RemoteJWKSet,
  SignJWT,
} from 'jose';
import { Refusal } from '../../platform/errors/errors.ts';
import type { SigningKeys } from '../../platform/nodes/nodes.ts';
import type { EpochMs } from '../../platform/time/time.ts';

export interface TokenKeysOptions {
  /** Keys of HS256, at least 32 bytes each (RFC 7518 section 3.2). */
  readonly secret: SigningKeys;
  /** PEM of a public key: RSA of 2048 bits or more, EC P-256/384/521, or Ed25519. */
  readonly publicKeyPem?: string | undefined;
  /** The URL of a JWK set (RFC 7517); never together with `publicKeyPem`. */
  readonly jwksUrl?: string | undefined;
  /** `iss` that tokens must have. */
  readonly issuer?: string | undefined;
  /** `aud` that tokens must have among theirs. */
  readonly audience?: string | undefined;
}

/** The claims of a token whose signature and times are valid. */
export interface VerifiedToken {
  /** Whether it was signed with the secret, as ours are. */
  readonly bySecret: boolean;
  readonly payload: JWTPayload;
}

/** How far clocks may be apart, in seconds. */
export const CLOCK_SKEW_SECONDS = 30;

/**
 * How long a JWK set is used before it is fetched again, and how long the verified signature of a token is trusted.
 * Together: 10 minutes after a key left the set, no token that it signed is accepted any more.
 */
export const BELIEVED_MS = 5 * 60 * 1000;

/** The longest token that is read; proxies accept no longer header either. */
const TOKEN_MAX = 8192;

const SECRET_ALGORITHM = 'HS256';
const RSA_ALGORITHMS = ['RS256', 'RS384', 'RS512'];
const CURVE_ALGORITHMS: Record<string, string> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
};
/** RFC 8037 section 3.1, and its name since RFC 9864 section 2.2. */
const EDWARDS_ALGORITHMS = ['EdDSA', 'Ed25519'];
const PUBLIC_ALGORITHMS = [
  ...RSA_ALGORITHMS,
  ...Object.values(CURVE_ALGORITHMS),
  ...EDWARDS_ALGORITHMS,
];

interface PublicSource {
  readonly key: KeyObject | RemoteJWKSet;
  readonly algorithms: readonly string[];
}

/** RFC 8725 section 3.1: a key is used only with its own algorithms. */
function algorithmsOf(key: KeyObject): readonly string[] {
  const { modulusLength = 0, namedCurve = '' } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === 'rsa' && modulusLength >= 2048) return RSA_ALGORITHMS;
  if (key.asymmetricKeyType === 'ed25519') return EDWARDS_ALGORITHMS;
  const algorithm = key.asymmetricKeyType === 'ec' ? CURVE_ALGORITHMS[namedCurve] : undefined;
  if (!algorithm) throw new Error('the public key is of a kind that signs no tokens');
  return [algorithm];
}

function publicSource(options: TokenKeysOptions): PublicSource | undefined {
  const { publicKeyPem, jwksUrl } = options;
  if (publicKeyPem !== undefined) {
    const key = createPublicKey(publicKeyPem);
    return { key, algorithms: algorithmsOf(key) };
  }
  if (jwksUrl === undefined) return undefined;
  // The set is fetched when it is first needed, one fetch at a time, and again for an unknown `kid` at most every 30 s:
  // tokens with invented ids do not cause requests.
  const key = createRemoteJWKSet(new URL(jwksUrl), { cacheMaxAge: BELIEVED_MS });
  return { key, algorithms: PUBLIC_ALGORITHMS };
}

/** The refusal of a token; `why` says what is wrong with it, never what is in it. */
export function refuseToken(why: string, cause?: unknown): Refusal {
  return new Refusal('unauthorized', `the token ${why}`, { cause });
}

/** Clients often send an API key here by mistake; the answer does not say whether it is one. */
const NOT_A_JWT =
  'is not a signed JWT: an API key belongs in the header x-api-key, and opens /v2 alone';

/** What is wrong with a token, or undefined where the reason is not the token. */
function faultOf(error: unknown): string | undefined {
  if (error instanceof errors.JWTExpired) return 'is expired';
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, reason } = error;
    if (reason === 'missing') return `has no ${claim} claim`;
    if (reason === 'invalid') return `has an ${claim} claim that is no number`;
    return claim === 'nbf'
      ? 'is not valid yet: see its nbf claim'
      : `has another ${claim} claim than is expected`;
  }
  if (
    error instanceof errors.JWSSignatureVerificationFailed ||
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JOSEAlgNotAllowed
  ) {
    return 'is not signed by a key of ours';
  }
  return error instanceof errors.JOSEError ? NOT_A_JWT : undefined;
}

export class TokenKeys {
  readonly #signingKey: KeyObject;
  readonly #secretKeys: readonly KeyObject[];
  readonly #public: PublicSource | undefined;
  readonly #expected: JWTVerifyOptions;
  readonly #named: { iss?: string; aud?: string };

  constructor(options: TokenKeysOptions) {
    const [first, ...others] = options.secret;
    this.#signingKey = createSecretKey(first, 'utf8');
    this.#secretKeys = [this.#signingKey, ...others.map((text) => createSecretKey(text, 'utf8'))];
    this.#public = publicSource(options);
    const { issuer, audience } = options;
    this.#expected = {
      clockTolerance: CLOCK_SKEW_SECONDS,
      requiredClaims: ['exp'],
      ...(issuer === undefined ? {} : { issuer }),
      ...(audience === undefined ? {} : { audience }),
    };
    this.#named = {
      ...(issuer === undefined ? {} : { iss: issuer }),
      ...(audience === undefined ? {} : { aud: audience }),
    };
  }

  /** Signs a token. */
  sign(claims: JWTPayload, now: EpochMs, lifetimeSeconds: number): Promise<string> {
    const issuedAt = Math.floor(now / 1000);
    return new SignJWT({ ...claims, ...this.#named })
      .setProtectedHeader({ alg: SECRET_ALGORITHM, typ: 'JWT' })
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + lifetimeSeconds)
      .sign(this.#signingKey);
  }

  /**
   * Checks signature, times, issuer and audience.
   *
   * @throws Refusal unauthorized, unavailable where the JWK set cannot be fetched
   */
  async verify(token: string, now: EpochMs): Promise<VerifiedToken> {
    if (token.length > TOKEN_MAX) throw refuseToken('is too long');
    const options = { ...this.#expected, currentDate: new Date(now) };
    try {
      // The header selects one of our keys, and each key has its algorithms: a public key is never used as the secret,
      // and `none` has no key (RFC 8725 sections 2.1 and 3.1).
      if (decodeProtectedHeader(token).alg === SECRET_ALGORITHM) {
        const own = { ...options, algorithms: [SECRET_ALGORITHM] };
        return {
          bySecret: true,
          payload: await verifyByAny(token, this.#secretKeys, own),
        };
      }
      return { bySecret: false, payload: await this.#verifyPublic(token, options) };
    } catch (error) {
      if (error instanceof Refusal) throw error;
      // Decoding hostile text throws TypeError, and so do keys that do not match the token.
      const why = faultOf(error) ?? (error instanceof TypeError && NOT_A_JWT);
      if (!why) throw error;
      throw refuseToken(why, error);
    }
  }

  async #verifyPublic(token: string, expected: JWTVerifyOptions): Promise<JWTPayload> {
    if (!this.#public) throw refuseToken('is not signed by a key of ours');
    const { key, algorithms } = this.#public;
    const options = { ...expected, algorithms: [...algorithms] };
    if (typeof key !== 'function') return (await jwtVerify(token, key, options)).payload;
    try {
      return (await jwtVerify(token, fetched(key), options)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
      // A token without `kid` may match several keys of a set (RFC 7517 section 4.5).
      return verifyByAny(token, error, options);
    }
  }
}

/** Distinguishes a JWK set that cannot be fetched from an invalid token. */
function fetched(keys: RemoteJWKSet): RemoteJWKSet {
  const resolve: (...args: Parameters<RemoteJWKSet>) => ReturnType<RemoteJWKSet> = async (
    ...args
  ) => {
    try {
      return await keys(...args);
    } catch (error) {
      if (
        error instanceof errors.JWKSNoMatchingKey ||
        error instanceof errors.JWKSMultipleMatchingKeys ||
        error instanceof errors.JOSENotSupported
      ) {
        throw error;
      }
      throw new Refusal('unavailable', 'the keys that sign tokens cannot be fetched right now', {
        retryAfter: 5,
        cause: error,
      });
    }
  };
  return Object.assign(resolve, keys);
}

/** @throws the errors of jose, also where no key matches the signature */
async function verifyByAny(
  token: string,
  keys: Iterable<KeyObject> | errors.JWKSMultipleMatchingKeys,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  for await (const key of keys) {
    try {
      return (await jwtVerify(token, key, options)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
    }
  }
  throw new errors.JWSSignatureVerificationFailed();
}
