/** The examples of the API reference are requests that the server takes. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { before, test } from 'node:test';
import type { TryIt } from '../../docs/.vitepress/reference/operation.ts';
import { urlOf } from '../../docs/.vitepress/theme/try-it.ts';
import { readReference, readSamples } from '../support/reference-samples.ts';
import {
  API_KEY,
  startTestService,
  type TestAccount,
  type TestService,
  WEBHOOK_SECRET,
} from '../support/service.ts';

let service: TestService;
let account: TestAccount;
let forms: TryIt[];
/** The samples in JavaScript. */
let scripts: string[];

before(async () => {
  service = await startTestService('sqlite');
  account = await service.makeAccount();
  const pages = await readReference();
  scripts = readSamples(pages, 'js [JavaScript]', service.url);
  forms = pages.flatMap((page) =>
    [...page.matchAll(/^<TryIt operation='(.*)' \/>$/gm)].map(([, json = '']) =>
      JSON.parse(json.replaceAll('&#39;', "'").replaceAll('&amp;', '&')),
    ),
  );
});

function credentialOf(form: TryIt): Record<string, string> {
  if (form.credential === 'apiKey') return { 'x-api-key': API_KEY };
  if (form.credential === 'bearer') return { authorization: `Bearer ${account.token}` };
  if (form.credential !== 'signature') return {};
  const signature = createHmac('sha256', WEBHOOK_SECRET)
    .update(form.body ?? '')
    .digest('hex');
  return { 'x-mailserver-signature': signature };
}

test('no example is refused for a wrong form', async () => {
  assert.ok(forms.length > 20);
  for (const form of forms) {
    // Nothing happens to the user whose events are asked for.
    const examples = form.parameters.map(({ name, example }) => [name, example]);
    const values = { ...Object.fromEntries(examples), wait: '0' };
    const answer = await fetch(service.url + urlOf(form, values), {
      method: form.method,
      headers: {
        ...credentialOf(form),
        ...(form.contentType && { 'content-type': form.contentType }),
      },
      ...(form.body !== undefined && { body: form.body }),
    });
    const said = `${form.method} ${form.path}: ${answer.status} ${await answer.text()}`;
    // What they name may not be there, and who they log in as: that is no fault of the form. The
    // event's user is one of those.
    const wellFormed = ![400, 405, 413, 415, 500].includes(answer.status);
    assert.ok(wellFormed || said.includes('is not the address of an account'), said);
    if (form.credential === 'apiKey') assert.notEqual(answer.status, 401, said);
  }
});

test('the samples in JavaScript run, and are not refused for a wrong form', async () => {
  assert.equal(scripts.length, forms.length);
  const printed: unknown[][] = [];
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
  const env = { KEY: API_KEY, TOKEN: account.token, SIGNATURE: '00', COOKIE: 'postroom_login=x' };
  for (const code of scripts) {
    const run = new AsyncFunction('process', 'console', code);
    await run({ env }, { log: (...values: unknown[]) => printed.push(values) });
    const [status, body] = printed.at(-1) ?? [];
    const said = `${code}\n${status} ${JSON.stringify(body)}`;
    assert.ok(![400, 405, 413, 415, 500].includes(Number(status)), said);
    if (code.includes('x-api-key')) assert.notEqual(status, 401, said);
  }
  assert.equal(printed.length, scripts.length);
});
