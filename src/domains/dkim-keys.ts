/** The key pair that signs a claim's mail and, published, proves who controls the zone. */
import { generateKeyPair, randomInt } from 'node:crypto';
import { promisify } from 'node:util';
import type { Queries } from '../database/database.ts';

const generate = promisify(generateKeyPair);

/** RFC 8301 section 3.2: signers use at least 1024 bits and should use at least 2048. */
const MODULUS_BITS = 2048;

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
const SELECTOR_RANDOM = 10;

export interface DkimKey {
  /** The name below `_domainkey` (RFC 6376 section 3.1); each claim has its own. */
  readonly selector: string;
  /** PKCS #8 PEM. */
  readonly privateKey: string;
}

export interface NewDkimKey extends DkimKey {
  /** What the TXT record at the selector has to say (RFC 6376 section 3.6.1). */
  readonly txtValue: string;
}

/**
 * Says why no mail of a claim may go out: receivers take mail for forged where the key that signs it is
 * not published.
 *
 * @returns the end of "<domain> ...", or undefined where its mail may go out
 */
export async function findSendingObstacle(
  queries: Queries,
  domainId: number,
): Promise<string | undefined> {
  const records = await queries
    .selectFrom('domains')
    .innerJoin('dns_records', 'dns_records.domain_id', 'domains.id')
    .select(['domains.status', 'dns_records.status as dkim'])
    .where('domains.id', '=', domainId)
    .where('dns_records.purpose', '=', 'dkim')
    .execute();
  const [record] = records;
  if (record?.status !== 'active') return 'is not active';
  if (records.every(({ dkim }) => dkim !== 'verified')) return 'has no verified DKIM record';
  return undefined;
}

let last: Promise<unknown> = Promise.resolve();

/**
 * Makes a key pair and a selector that nobody else has (50 random bits).
 *
 * One pair at a time: each takes a tenth of a second of one of the four threads that files and
 * passwords wait for as well.
 */
export function generateDkimKey(): Promise<NewDkimKey> {
  const key = last.then(makeKey);
  last = key.catch(() => undefined);
  return key;
}

async function makeKey(): Promise<NewDkimKey> {
  const { publicKey, privateKey } = await generate('rsa', {
    modulusLength: MODULUS_BITS,
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const random = Array.from({ length: SELECTOR_RANDOM }, () => BASE32[randomInt(BASE32.length)]);
  return {
    selector: `pr${random.join('')}`,
    privateKey,
    txtValue: `v=DKIM1; k=rsa; p=${publicKey.toString('base64')}`,
  };
}
