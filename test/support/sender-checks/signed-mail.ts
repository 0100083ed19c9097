/** Messages signed on the fly, with keys made once. */
import { generateKeyPairSync } from 'node:crypto';
import { dkimSign } from 'mailauth/lib/dkim/sign.js';

function makeKey(type: 'rsa' | 'ed25519') {
  const { privateKey, publicKey } =
    type === 'rsa'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : generateKeyPairSync('ed25519');
  const p = publicKey.export({ type: 'spki', format: 'der' }).subarray(type === 'rsa' ? 0 : -32);
  return {
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    record: `v=DKIM1; k=${type}; p=${p.toString('base64')}`,
  };
}

export const rsaKey = makeKey('rsa');
export const ed25519Key = makeKey('ed25519');

export interface Signing {
  readonly domain: string;
  readonly selector?: string;
  readonly key?: typeof rsaKey;
  readonly canonicalization?: string;
  readonly algorithm?: string;
  readonly headerList?: readonly string[];
  /** Octets of the body to sign (l=). */
  readonly maxBodyLength?: number;
  readonly expires?: Date;
}

/** The message with a signature on top. */
export async function sign(message: string, signing: Signing): Promise<string> {
  const { domain, selector = 'key1', key = rsaKey, headerList, ...options } = signing;
  const own = {
    ...options,
    ...(headerList && { headerList: [...headerList] }),
    signingDomain: domain,
    selector,
    privateKey: key.privateKey,
  };
  const { signatures, errors } = await dkimSign(message, { ...own, signatureData: [own] });
  for (const { err } of errors) throw err;
  return signatures + message;
}
