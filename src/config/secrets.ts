/**
 * The secrets that are made at the first start and kept from then on.
 *
 * They lie as one JSON object of strings in `DATA_DIR/secrets.json` (mode 0600) or, for several
 * nodes, wherever another {@link SecretStore} puts them. They are never made again by themselves:
 * new ones would end every token and link, so text that cannot be read stops the start.
 */
import { hkdfSync, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createDurably, isMissing, replaceDurably } from '../files/files.ts';
import { ConfigError, explainFileError, problemLine } from './config-error.ts';
import { dataDirError } from './data-folder.ts';

/** Each has 32 random bytes as base64url, unless the operator wrote another. */
export interface Secrets {
  /** The first API key, `pr_...`. */
  readonly apiKey: string;
  /** HS256 key of mailbox tokens: its UTF-8 bytes. */
  readonly jwtSecret: string;
  /** HMAC key of POST /hooks/mailserver: its UTF-8 bytes. */
  readonly mailserverWebhookSecret: string;
  /** Signs the sender addresses of forwarded mail. */
  readonly srsSecret: string;
  /** Signs `raw_url` links. */
  readonly linkSecret: string;
}

/** One text, written once; every node that shares the store reads the same one. */
export interface SecretStore {
  /** Where the text is, for an operator. */
  readonly place: string;
  /** @returns undefined where nothing was stored yet */
  read(): Promise<string | undefined>;
  /**
   * Stores the text, durably, unless there is one already.
   *
   * @returns the text that is stored now, the caller's or the one of an earlier writer
   */
  create(json: string): Promise<string>;
}

/** Fewest characters of each secret; also the list of the members. */
const fewestCharacters: Readonly<Record<keyof Secrets, number>> = {
  apiKey: 16,
  jwtSecret: 32,
  mailserverWebhookSecret: 16,
  srsSecret: 16,
  linkSecret: 16,
};

/**
 * Reads the secrets, or makes them where the store is empty.
 *
 * @param isNew whether nothing has been set up yet; else missing secrets are not made anew
 * @returns `created`: whether the secrets were made by this very call
 * @throws ConfigError when the store cannot be used or holds no readable secrets
 */
export async function loadSecrets(
  store: SecretStore,
  isNew = true,
): Promise<{ secrets: Secrets; created: boolean }> {
  const { place } = store;
  const stored = await store.read();
  if (stored !== undefined) return { secrets: readStored(stored, place), created: false };
  if (!isNew) throw secretsMissing(place);
  const made = formatSecrets(makeSecrets());
  const kept = await store.create(made);
  return { secrets: readStored(kept, place), created: kept === made };
}

/** New secrets would end every token and link, and the reason may be a folder that is not mounted. */
function secretsMissing(place: string): ConfigError {
  const expected =
    'the secrets of this database, which has domains (bring them back from a backup; if they are ' +
    'lost, write {"jwtSecret":"<32 random characters>"} there, which ends every token and link)';
  return new ConfigError([problemLine(place, expected, 'nothing')]);
}

function makeSecrets(): Secrets {
  const secret = () => randomBytes(32).toString('base64url');
  return {
    apiKey: `pr_${secret()}`,
    jwtSecret: secret(),
    mailserverWebhookSecret: secret(),
    srsSecret: secret(),
    linkSecret: secret(),
  };
}

function formatSecrets(secrets: object): string {
  return `${JSON.stringify(secrets, undefined, 2)}\n`;
}

/** Where the file store keeps the secrets of a data folder. */
export function secretsPath(dataDir: string): string {
  return join(dataDir, 'secrets.json');
}

/**
 * Keeps the secrets in `secrets.json` of the data folder, which must be there.
 *
 * `read` also writes the members that an older version did not have yet.
 */
export function fileSecretStore(dataDir: string): SecretStore {
  const path = secretsPath(dataDir);
  const readComplete = async () => {
    const text = await readSecretFile(path);
    return text === undefined ? undefined : await completeFile(dataDir, text);
  };
  const create = async (json: string) => {
    await storing(dataDir, () => createDurably(path, json, 0o600));
    const kept = await readComplete();
    // Only a hand that takes the file away in this very moment leads here.
    if (kept === undefined) throw unreadable(path, 'no file');
    return kept;
  };
  return { place: path, read: readComplete, create };
}

async function readSecretFile(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw unreadable(path, explainFileError(error), error);
  }
}

async function completeFile(dataDir: string, text: string): Promise<string> {
  const path = secretsPath(dataDir);
  const members = parseMembers(text, path);
  const secrets = completeSecrets(members, path);
  const names = Object.keys(secrets);
  if (names.every((name) => name in members)) return text;
  // Members of a newer version stay. Nodes that do this at once write the same bytes.
  const completed = formatSecrets({ ...members, ...secrets });
  await storing(dataDir, () => replaceDurably(path, completed, 0o600));
  return completed;
}

async function storing<Result>(dataDir: string, write: () => Promise<Result>): Promise<Result> {
  try {
    return await write();
  } catch (error) {
    throw dataDirError(dataDir, error);
  }
}

function readStored(text: string, place: string): Secrets {
  return completeSecrets(parseMembers(text, place), place);
}

function parseMembers(text: string, place: string): Readonly<Record<string, unknown>> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    // The parser's message is left out: it repeats a part of the text.
    throw unreadable(place, 'text that is no JSON');
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw unreadable(place, 'no object');
  }
  return { ...parsed };
}

function completeSecrets(members: Readonly<Record<string, unknown>>, place: string): Secrets {
  const jwtSecret = secretOf(members, 'jwtSecret', place);
  // Every version has had this one; without it the tokens that are out would end.
  if (jwtSecret === undefined) throw unreadable(place, 'no jwtSecret');
  const member = (name: keyof Secrets) =>
    secretOf(members, name, place) ?? deriveSecret(jwtSecret, name);
  return {
    apiKey: member('apiKey'),
    jwtSecret,
    mailserverWebhookSecret: member('mailserverWebhookSecret'),
    srsSecret: member('srsSecret'),
    linkSecret: member('linkSecret'),
  };
}

function secretOf(
  members: Readonly<Record<string, unknown>>,
  name: keyof Secrets,
  place: string,
): string | undefined {
  const secret = Object.hasOwn(members, name) ? members[name] : undefined;
  if (secret === undefined) return undefined;
  if (typeof secret === 'string' && secret.length >= fewestCharacters[name]) return secret;
  throw unreadable(place, `${name} with less than ${fewestCharacters[name]} characters`);
}

/**
 * A member that an older version did not have, derived with HKDF (RFC 5869) instead of drawn:
 * nodes that meet the old text at the same time agree without a lock, on any store.
 */
function deriveSecret(jwtSecret: string, name: keyof Secrets): string {
  const bytes = Buffer.from(hkdfSync('sha256', jwtSecret, '', `postroom ${name}`, 32));
  return `${name === 'apiKey' ? 'pr_' : ''}${bytes.toString('base64url')}`;
}

function unreadable(place: string, found: string, cause?: unknown): ConfigError {
  const expected =
    'the generated secrets (bring them back from a backup; removing them makes new ones, ' +
    'which ends every token and link)';
  return new ConfigError([problemLine(place, expected, found)], { cause });
}
