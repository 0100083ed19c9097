/** A DKIM key with its record, and mailauth's verdict on what arrived. */
import { generateKeyPairSync } from 'node:crypto';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import type { DkimKey } from '../../../src/tenants/domains/domains.ts';

export interface PublishedKey extends DkimKey {
  readonly domain: string;
  /** The TXT record at the selector. */
  readonly record: string;
}

export function makeKey(domain: string, selector = 'pr1'): PublishedKey {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const record = `v=DKIM1; k=rsa; p=${publicKey.toString('base64')}`;
  return { domain, selector, privateKey, record };
}

/** DNS with these keys in it, as mailauth asks it. */
export function resolverOf(...keys: PublishedKey[]): (name: string) => Promise<string[][]> {
  return async (name) => {
    const key = keys.find(({ domain, selector }) => name === `${selector}._domainkey.${domain}`);
    if (!key) throw Object.assign(new Error('no such record'), { code: 'ENOTFOUND' });
    return [[key.record]];
  };
}

/** `pass acme.test` for each signature, in order, strictly by the RFCs. */
export async function verify(source: Buffer, ...keys: PublishedKey[]): Promise<string[]> {
  const { results } = await dkimVerify(source, { strict: true, resolver: resolverOf(...keys) });
  return results.map(({ status, signingDomain }) => `${status.result} ${signingDomain}`);
}
