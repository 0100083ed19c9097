/**
 * Makes a self-signed certificate for a TLS server, written as DER by hand (ITU-T X.690): it has a dozen fields that
 * never change, and the libraries that write any certificate take longer to load than the rest of a first start.
 */
import { generateKeyPair, randomBytes, sign } from 'node:crypto';
import { promisify } from 'node:util';

const BOOLEAN = 0x01;
const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const OBJECT_ID = 0x06;
const UTF8_STRING = 0x0c;
const UTC_TIME = 0x17;
const GENERALIZED_TIME = 0x18;
const SEQUENCE = 0x30;
const SET = 0x31;
/** Context-specific tags: primitive, and constructed. */
const context = (number: number) => 0x80 | number;
const contextOf = (number: number) => 0xa0 | number;

const NULL = Buffer.from([0x05, 0]);
const TRUE = Buffer.from([0xff]);
/** Object identifiers, as the bytes of their values. */
const commonName = '550403';
const sha256WithRsa = '2a864886f70d01010b';
const basicConstraints = '551d13';
const keyUsage = '551d0f';
const extendedKeyUsage = '551d25';
const serverAuth = '2b06010505070301';
const subjectAltName = '551d11';

function der(tag: number, ...content: readonly Uint8Array[]): Buffer {
  const value = Buffer.concat(content);
  const { length } = value;
  const head = [tag, length];
  if (length >= 0x100) head.splice(1, 1, 0x82, length >> 8, length & 0xff);
  else if (length >= 0x80) head.splice(1, 1, 0x81, length);
  return Buffer.concat([Buffer.from(head), value]);
}

const objectId = (hex: string) => der(OBJECT_ID, Buffer.from(hex, 'hex'));

/** UTCTime through 2049, GeneralizedTime from 2050 (RFC 5280 section 4.1.2.5). */
function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/\.\d+|\D/g, '');
  return date.getUTCFullYear() < 2050
    ? der(UTC_TIME, Buffer.from(`${digits.slice(2)}Z`))
    : der(GENERALIZED_TIME, Buffer.from(`${digits}Z`));
}

function extension(id: string, isCritical: boolean, value: Buffer): Buffer {
  const critical = isCritical ? [der(BOOLEAN, TRUE)] : [];
  return der(SEQUENCE, objectId(id), ...critical, der(OCTET_STRING, value));
}

function extensions(hostname: string): Buffer {
  return der(
    SEQUENCE,
    // No certification authority.
    extension(basicConstraints, true, der(SEQUENCE)),
    // Bits 0 and 2, digitalSignature and keyEncipherment; five bits of the octet are unused.
    extension(keyUsage, true, der(BIT_STRING, Buffer.from([5, 0b1010_0000]))),
    extension(extendedKeyUsage, false, der(SEQUENCE, objectId(serverAuth))),
    // Only this name counts (RFC 9525 section 2); a common name has at most 64 characters.
    extension(
      subjectAltName,
      false,
      der(SEQUENCE, der(context(2), Buffer.from(hostname, 'latin1'))),
    ),
  );
}

function pem(label: string, content: Buffer): string {
  const lines = content.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}

interface SelfSignedOptions {
  readonly hostname: string;
  readonly validFrom: Date;
  readonly validTo: Date;
}

/** @returns certificate and private key (PKCS #8) as PEM */
export async function makeSelfSigned(
  options: SelfSignedOptions,
): Promise<{ readonly cert: string; readonly key: string }> {
  // RSA, since old mail servers that only know RSA would otherwise send in plaintext.
  const { publicKey, privateKey } = await promisify(generateKeyPair)('rsa', {
    modulusLength: 2048,
  });
  const algorithm = der(SEQUENCE, objectId(sha256WithRsa), NULL);
  const attribute = der(SEQUENCE, objectId(commonName), der(UTF8_STRING, Buffer.from('Postroom')));
  const name = der(SEQUENCE, der(SET, attribute));
  // Positive and without leading zeros, at most 20 octets (RFC 5280 section 4.1.2.2).
  const serial = randomBytes(16);
  serial.writeUInt8(0x40 | (serial.readUInt8() & 0x3f));
  const toBeSigned = der(
    SEQUENCE,
    // Version 3, which is numbered 2.
    der(contextOf(0), der(INTEGER, Buffer.from([2]))),
    der(INTEGER, serial),
    algorithm,
    name,
    der(SEQUENCE, time(options.validFrom), time(options.validTo)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(contextOf(3), extensions(options.hostname)),
  );
  const signature = sign('sha256', toBeSigned, privateKey);
  // The first octet: none of the bits of the last is unused.
  const signatureBits = der(BIT_STRING, Buffer.from([0]), signature);
  const certificate = der(SEQUENCE, toBeSigned, algorithm, signatureBits);
  return {
    cert: pem('CERTIFICATE', certificate),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}
