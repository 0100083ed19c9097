/**
 * The secrets that are made at the first start and kept from then on.
 *
 * They are one JSON object in `DATA_DIR/secrets.json` (mode 0600) or, for several nodes, wherever another
 * {@link SettingStore} puts them. They are never made again automatically: new ones would end every token and link, so
 * unreadable text prevents the start.
 *
 * A member is a string, or an array of strings while a new value replaces an old one: the first signs, all of them
 * verify. {@link rotateSecret} adds a new one, {@link signWithLast} puts the last before the others,
 * {@link dropOldValues} removes all but the first. Each is one durable write, so a secret always has a valid value. The
 * member `accepted` names the secrets whose last value does not sign yet, so that each of these can be repeated.
 */
import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SettingStore } from '../../platform/database/database.ts';
import { createDurably, isMissing, replaceDurably } from '../../platform/files/files.ts';
import type { SigningKeys } from '../../platform/nodes/nodes.ts';
import { ConfigError, explainFileError, problemLine } from './config-error.ts';
import { dataDirError } from './data-folder.ts';

/** Each value has 32 random bytes as base64url, unless the operator wrote another. */
export interface Secrets {
  /** The first API key, `pr_...`. */
  readonly apiKey: SigningKeys;
  /** HS256 key of mailbox tokens: its UTF-8 bytes. */
  readonly jwtSecret: SigningKeys;
  /** HMAC key of POST /hooks/mailserver: its UTF-8 bytes. */
  readonly mailserverWebhookSecret: SigningKeys;
  /** Signs the sender addresses of forwarded mail. */
  readonly srsSecret: SigningKeys;
  /** Signs `raw_url` links. */
  readonly linkSecret: SigningKeys;
  /** For ids and cursors of clients. It gives no access and never changes: apps keep these ids. */
  readonly idSecret: SigningKeys;
}

/** A secret that can be given a new value. */
export type RotatedSecret = Exclude<keyof Secrets, 'idSecret'>;

/** The least characters of each secret; also the list of the members. */
const fewestCharacters: Readonly<Record<keyof Secrets, number>> = {
  apiKey: 16,
  jwtSecret: 32,
  mailserverWebhookSecret: 16,
  srsSecret: 16,
  linkSecret: 16,
  idSecret: 16,
};

/**
 * Reads the secrets, or makes them where the store is empty.
 *
 * @param isNew whether nothing was set up yet; otherwise missing secrets are not made again
 * @throws ConfigError when the store cannot be used or has no readable secrets
 */
export async function loadSecrets(store: SettingStore, isNew = true): Promise<Secrets> {
  const { location } = store;
  const stored = await store.read();
  if (stored !== undefined) return parseSecrets(stored, location);
  if (!isNew) throw secretsMissing(location);
  const made = formatSecrets(toMembers(secretsOf((name) => [drawSecret(name)])));
  return parseSecrets(await store.create(made), location);
}

/** New secrets would end every token and link, and the reason may be a folder that is not mounted. */
function secretsMissing(location: string): ConfigError {
  const expected =
    'the secrets of this database, which has domains (bring them back from a backup; if they are ' +
    'lost, write {"jwtSecret":"<32 random characters>"} there, which ends every token and link)';
  return new ConfigError([problemLine(location, expected, 'nothing')]);
}

/**
 * Gives a secret a new value, from the next start on.
 *
 * @param position `first`: it signs; `last`: it only verifies, so that other nodes learn it before any of them signs with it
 * @returns the new value
 * @throws ConfigError where there are no secrets yet, or they cannot be read
 */
export async function rotateSecret(
  store: SettingStore,
  name: RotatedSecret,
  position: 'first' | 'last' = 'first',
): Promise<string> {
  const value = drawSecret(name);
  await change(store, name, ({ values, isAccepted }) =>
    position === 'first'
      ? { values: [value, ...values], isAccepted }
      : { values: [...values, value], isAccepted: true },
  );
  return value;
}

/**
 * Lets the last value of a secret sign from the next start on. Nothing changes where it signs already.
 *
 * @throws ConfigError as {@link rotateSecret}
 */
export async function signWithLast(store: SettingStore, name: RotatedSecret): Promise<void> {
  await change(store, name, ({ values, isAccepted }) => ({
    values: isAccepted ? [values.at(-1) ?? values[0], ...values.slice(0, -1)] : values,
    isAccepted: false,
  }));
}

/**
 * Removes all values of a secret except the first. What they signed is refused from the next start on.
 *
 * @returns how many it removed; undefined where the newest does not sign yet: then all stay
 * @throws ConfigError as {@link rotateSecret}
 */
export async function dropOldValues(
  store: SettingStore,
  name: RotatedSecret,
): Promise<number | undefined> {
  const before = await change(store, name, (rotation) =>
    rotation.isAccepted ? rotation : { values: [rotation.values[0]], isAccepted: false },
  );
  return before.isAccepted ? undefined : before.values.length - 1;
}

interface Rotation {
  readonly values: SigningKeys;
  /** Whether the last value is only accepted, and does not sign yet. */
  readonly isAccepted: boolean;
}

/** The member with the names of secrets whose last value is only accepted. */
const ACCEPTED = 'accepted';

/** @returns what was there before the change */
async function change(
  store: SettingStore,
  name: RotatedSecret,
  changed: (before: Rotation) => Rotation,
): Promise<Rotation> {
  for (;;) {
    const { text, members, secrets, known, before } = await readRotation(store, name);
    const { values, isAccepted } = changed(before);
    const accepted = known.filter((one) => one !== name);
    if (isAccepted) accepted.push(name);
    // Members of a newer version stay, and those that an older one did not have are written now.
    const next = formatSecrets({
      ...members,
      ...toMembers({ ...secrets, [name]: values }),
      [ACCEPTED]: accepted.length > 0 ? accepted : undefined,
    });
    if (await store.replace(text, next)) return before;
  }
}

async function readRotation(store: SettingStore, name: RotatedSecret) {
  const text = await store.read();
  if (text === undefined) {
    const expected = 'the secrets that the first start of the service makes';
    throw new ConfigError([problemLine(store.location, expected, 'nothing')]);
  }
  const members = parseMembers(text, store.location);
  const secrets = completeSecrets(members, store.location);
  const known: unknown[] = Array.isArray(members[ACCEPTED]) ? members[ACCEPTED] : [];
  const before: Rotation = { values: secrets[name], isAccepted: known.includes(name) };
  return { text, members, secrets, known, before };
}

/** What nodes tell each other of a secret's value. It is keyed with the one that never changes. */
export function digestOf({ idSecret }: Pick<Secrets, 'idSecret'>, value: string): string {
  return `#${createHmac('sha256', idSecret[0]).update(value).digest('base64url')}`;
}

/** The same of the newest value of a secret. @throws ConfigError as {@link rotateSecret} */
export async function newestDigest(store: SettingStore, name: RotatedSecret): Promise<string> {
  const { secrets, before } = await readRotation(store, name);
  const [first] = before.values;
  return digestOf(secrets, before.isAccepted ? (before.values.at(-1) ?? first) : first);
}

function drawSecret(name: keyof Secrets): string {
  return `${name === 'apiKey' ? 'pr_' : ''}${randomBytes(32).toString('base64url')}`;
}

function secretsOf(values: (name: keyof Secrets) => SigningKeys): Secrets {
  return {
    apiKey: values('apiKey'),
    jwtSecret: values('jwtSecret'),
    mailserverWebhookSecret: values('mailserverWebhookSecret'),
    srsSecret: values('srsSecret'),
    linkSecret: values('linkSecret'),
    idSecret: values('idSecret'),
  };
}

/** The stored form: a secret with one value is a string. */
function toMembers(secrets: Secrets): Readonly<Record<string, string | SigningKeys>> {
  const entries = Object.entries<SigningKeys>({ ...secrets });
  return Object.fromEntries(
    entries.map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  );
}

function formatSecrets(secrets: object): string {
  return `${JSON.stringify(secrets, undefined, 2)}\n`;
}

/** The file with the secrets of a data folder. */
export function secretsPath(dataDir: string): string {
  return join(dataDir, 'secrets.json');
}

/**
 * Keeps the secrets in `secrets.json` of the data folder, which must exist.
 *
 * `read` also writes the members that an older version did not have yet.
 */
export function fileSecretStore(dataDir: string): SettingStore {
  const path = secretsPath(dataDir);
  const readComplete = async () => {
    const text = await readSecretFile(path);
    return text === undefined ? undefined : await completeFile(dataDir, text);
  };
  const create = async (json: string) => {
    await storing(dataDir, () => createDurably(path, json, 0o600));
    const kept = await readComplete();
    // Happens only if somebody removes the file at this very moment.
    if (kept === undefined) throw unreadable(path, 'no file');
    return kept;
  };
  const replace = async (read: string, json: string) => {
    if ((await readSecretFile(path)) !== read) return false;
    await storing(dataDir, () => replaceDurably(path, json, 0o600));
    return true;
  };
  return { location: path, read: readComplete, create, replace };
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
  const completed = formatSecrets({ ...members, ...toMembers(secrets) });
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

/** The secrets in a text of a {@link SettingStore}. @throws ConfigError where they are not readable */
export function parseSecrets(text: string, location: string): Secrets {
  return completeSecrets(parseMembers(text, location), location);
}

function parseMembers(text: string, location: string): Readonly<Record<string, unknown>> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    // Without the parser's message, which repeats a part of the text.
    throw unreadable(location, 'text that is no JSON');
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw unreadable(location, 'no object');
  }
  return { ...parsed };
}

function completeSecrets(members: Readonly<Record<string, unknown>>, location: string): Secrets {
  const jwtSecret = valuesOf(members, 'jwtSecret', location);
  // Every version had this one; without it all valid tokens would end.
  if (jwtSecret === undefined) throw unreadable(location, 'no jwtSecret');
  // The oldest: values derived from it do not change when newer ones come before it.
  const first = oldest(jwtSecret);
  const secrets = secretsOf(
    (name) => valuesOf(members, name, location) ?? [deriveSecret(first, name)],
  );
  if (Object.hasOwn(members, 'idSecret')) return secrets;
  // Older versions made the ids with this one.
  return { ...secrets, idSecret: [oldest(secrets.linkSecret)] };
}

function oldest(values: SigningKeys): string {
  return values.at(-1) ?? values[0];
}

function valuesOf(
  members: Readonly<Record<string, unknown>>,
  name: keyof Secrets,
  location: string,
): SigningKeys | undefined {
  const member = Object.hasOwn(members, name) ? members[name] : undefined;
  if (member === undefined) return undefined;
  const [first, ...others]: unknown[] = Array.isArray(member) ? member : [member];
  const isGood = (value: unknown): value is string =>
    typeof value === 'string' && value.length >= fewestCharacters[name];
  if (isGood(first) && others.every(isGood)) return [first, ...others];
  throw unreadable(location, `${name} with less than ${fewestCharacters[name]} characters`);
}

/**
 * A member that an older version did not have, derived with HKDF (RFC 5869) instead of made at random: nodes that read
 * the old text at the same time agree without a lock, on any store.
 */
function deriveSecret(jwtSecret: string, name: keyof Secrets): string {
  const bytes = Buffer.from(hkdfSync('sha256', jwtSecret, '', `postroom ${name}`, 32));
  return `${name === 'apiKey' ? 'pr_' : ''}${bytes.toString('base64url')}`;
}

function unreadable(location: string, found: string, cause?: unknown): ConfigError {
  const expected =
    'the generated secrets (bring them back from a backup; removing them makes new ones, ' +
    'which ends every token and link)';
  return new ConfigError([problemLine(location, expected, found)], { cause });
}
