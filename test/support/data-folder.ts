/** A data folder with mail, and what a service says of it: for tests of data that is not where it was. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createTransport } from 'nodemailer';
import { environment, startHere } from './process.ts';

const KEY = 'key-of-the-data-folder-test';
const PASSWORD = 'a good password';
const ANN = 'ann@acme.test';
/** Beyond 64 KiB a message is a file. */
export const TEXT = 'x'.repeat(100_000);

type Environment = Awaited<ReturnType<typeof environment>> & Record<string, string>;

// biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
async function post(env: Environment, path: string, body: object, token?: string): Promise<any> {
  const response = await fetch(`http://127.0.0.1:${env.PORT}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(token ? { authorization: `Bearer ${token}` } : { 'x-api-key': KEY }),
    },
    body: JSON.stringify({ user_id: 'u', ...body }),
  });
  return response.json();
}

export const readyz = async ({ PORT }: Environment) =>
  (await fetch(`http://127.0.0.1:${PORT}/readyz`)).status;

/** @returns the reply to the message or, where there is one, to the refused recipient */
export async function send({ SMTP_PORT }: Environment, to = ANN): Promise<string> {
  const transport = createTransport({
    host: '127.0.0.1',
    port: Number(SMTP_PORT),
    ignoreTLS: true,
  });
  try {
    const sent = await transport.sendMail({ from: 'b@example.test', to, subject: 'm', text: TEXT });
    return sent.response;
  } catch (error) {
    assert.ok(error instanceof Error);
    return 'response' in error ? String(error.response) : error.message;
  }
}

export async function settings(name: string): Promise<Environment> {
  return { ...(await environment(name)), API_KEYS: KEY };
}

/** Makes an account that has one message, whose source is a file. */
export async function addMail(env: Environment): Promise<void> {
  assert.match(await send(env), /^450 4\.3\.5 /);
  const { domain } = await post(env, '/v2/domain', { domain: 'acme.test' });
  for (const { id } of domain.dns) {
    await post(env, '/v2/domains/acme.test/dns/mark', { id, status: 'verified' });
  }
  const account = { domain: 'acme.test', local_part: 'ann', password: PASSWORD };
  await post(env, '/v2/email-accounts/create', account);
  assert.match(await send(env), /^250 /);
}

/** A data folder whose service has ended, with one account that has one message. */
export async function folderWithMail(name: string): Promise<Environment> {
  const env = await settings(name);
  const service = await startHere(env);
  await addMail(env);
  await service.stop();
  return env;
}

/** Reads the first message of the account to its end; answers how long its source is. */
export async function readMail(env: Environment): Promise<number> {
  const { token } = await post(env, '/mail/token', { address: ANN, password: PASSWORD });
  const response = await fetch(`http://127.0.0.1:${env.PORT}/mail/message?mailbox=INBOX&uid=1`, {
    headers: { authorization: `Bearer ${token}` },
  });
  assert.equal(response.status, 200);
  // biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
  return ((await response.json()) as any).rfc822.length;
}

export const bodyFiles = async ({ DATA_DIR }: Environment) =>
  (await readdir(join(DATA_DIR, 'bodies'), { recursive: true })).filter((name) =>
    /^[0-9a-f]{2}\//.test(name),
  );

/** The lines of a log that say that database and sources are not of one service. */
export const logged = (output: string) =>
  output.split('\n').filter((line) => line.includes('they do not belong together'));
