/**
 * Loaded before the tests of a process: argon2id and DKIM keys would take a third of its processor time. Here passwords
 * are hashed with little memory, and domains get one of a few keys. Programs that tests start work as those of users.
 * Threads, which load this as well, make neither.
 */
import { generateKeyPair } from 'node:crypto';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { isMainThread } from 'node:worker_threads';

type Argon2 = typeof import('@node-rs/argon2');

if (isMainThread) hashCheaply();

function hashCheaply(): void {
  const argon2: { hash: Argon2['hash'] } = createRequire(import.meta.url)('@node-rs/argon2');
  const { hash } = argon2;
  argon2.hash = (password, options, signal) =>
    hash(password, { ...options, memoryCost: 64, timeCost: 1 }, signal);
}

const KEYS = 4;
const generate = promisify(generateKeyPair);
const keys: ReturnType<typeof generate>[] = [];
let made = 0;

// What `promisify` makes of it from now on.
Object.defineProperty(generateKeyPair, promisify.custom, {
  value: (...args: Parameters<typeof generate>) => {
    if (keys.length < KEYS) keys.push(generate(...args));
    return keys[made++ % KEYS];
  },
});
