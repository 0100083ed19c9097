/** Plays every dialogue of dialogues/ against a listener of its own; test/support/smtp/dialogue.ts explains their form. */
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { dialogueOptions, runDialogue } from '../../../test/support/smtp/dialogue.ts';
import { startListener } from '../../../test/support/smtp/start-listener.ts';

const folder = new URL('dialogues/', import.meta.url);

for (const file of readdirSync(folder)) {
  test(file.replace(/\.smtp$/, '').replaceAll('-', ' '), async (context) => {
    const script = readFileSync(new URL(file, folder), 'utf8');
    await runDialogue(script, await startListener(context, dialogueOptions(script)));
  });
}
