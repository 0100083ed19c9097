/** What the mail servers of the test run have in common. */

import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, type NetConnectOpts } from 'node:net';

/** Address and password of one mailbox. */
export interface Login {
  readonly user: string;
  readonly pass: string;
  /** SASL PLAIN authorization identity (RFC 4616): whose mailbox it is. */
  readonly authzid?: string;
}

/** An IMAP server on loopback that the test run started. */
export interface MailServer {
  readonly name: 'dovecot' | 'cyrus' | 'courier';
  readonly host: string;
  readonly imapPort: number;
  /** As MAILSTORE_URL has it: the master's name and password. */
  readonly mailstoreUrl: string;
  /** As LMTP_URL has it; Courier has no LMTP. */
  readonly lmtpUrl?: string;
  readonly lmtpPort?: number;
  /** Whether it announces CONDSTORE and QRESYNC (RFC 7162). */
  readonly modseq: boolean;
  /** Makes a mailbox account with INBOX, Sent, Drafts, Junk, Trash and Archive. */
  addAccount(address: string, password?: string): Promise<void>;
  /** imapflow's `auth` for an account, through the master's password. */
  loginAs(address: string): Login;
  /** Gives a mailbox a new UIDVALIDITY; open sessions of it end. */
  resetUidValidity(address: string, mailbox: string): Promise<void>;
  /** Stops the processes; accounts and mail stay for `resume`. */
  pause(): Promise<void>;
  /** Starts again on the same ports. */
  resume(): Promise<void>;
  /** Stops, and removes everything. */
  stop(): Promise<void>;
}

export const MASTER = 'postroom';

export function newPassword(): string {
  return randomBytes(12).toString('hex');
}

/** Waits until a server greets on a loopback port; the connection is closed at once. */
export async function untilGreeting(port: number, server: ChildProcess): Promise<void> {
  while (server.exitCode === null && server.signalCode === null) {
    if (await greets(port)) return;
    await rest();
  }
  throw new Error(`the server on port ${port} ended with ${server.exitCode}`);
}

/** Waits until nobody listens on a loopback port any more: a server, or its workers, need a moment to go. */
export async function untilRefused(port: number): Promise<void> {
  while ((await codeOfConnecting({ port, host: '127.0.0.1' })) !== 'ECONNREFUSED') await rest();
}

/** Waits until a server takes connections to a socket of the file system. */
export async function untilTaken(path: string): Promise<void> {
  while ((await codeOfConnecting({ path })) !== undefined) await rest();
}

/** The code of the error that a connection ends with; none where it can be made. */
function codeOfConnecting(to: NetConnectOpts): Promise<string | undefined> {
  const socket = connect(to);
  return new Promise<string | undefined>((resolve) => {
    socket.once('connect', () => resolve(undefined));
    socket.once('error', ({ code = '' }: NodeJS.ErrnoException) => resolve(code));
  }).finally(() => socket.destroy());
}

/** Between two looks. */
const rest = () => new Promise((resolve) => setTimeout(resolve, 20));

function greets(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const end = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(1000, () => end(false));
    socket.once('data', () => end(true));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
  });
}

/** Ends a process that the test run started, and waits for its end. */
export async function endProcess(server: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const exited = once(server, 'exit');
  server.kill(signal);
  await exited;
}

/**
 * For `unshare` with a PID namespace: a process group of its own. Where the end of a namespace leaves the group of the test
 * run without a parent, Linux sends SIGHUP to all of that group as soon as one of it is stopped (SIGSTOP), as another suite's
 * frozen node is (POSIX.1, `_exit`: orphaned process groups). It would end the whole run.
 */
export const ofItsOwn = { detached: true } as const;

/**
 * Ends what runs in a PID namespace of its own, and waits until nothing of it is left.
 *
 * @param holder `unshare`, which waits for the first process there: with that one all others end, before it ends itself
 */
export async function endNamespace(holder: ChildProcess): Promise<void> {
  if (holder.exitCode !== null || holder.signalCode !== null) return;
  const exited = once(holder, 'exit');
  const children = await readFile(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8');
  const first = Number(children.trim());
  if (first > 0) process.kill(first, 'SIGKILL');
  else holder.kill('SIGKILL');
  await exited;
}

/** Runs a command to its end. @throws Error with what it said where it failed */
export async function runCommand(
  command: string,
  args: readonly string[],
  { input = '', env = process.env }: { input?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'pipe'] });
  let out = '';
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  // A command that reads no input may close it first.
  child.stdin.on('error', () => undefined).end(input);
  const [code] = await once(child, 'close');
  if (code !== 0)
    throw new Error(`${command} ${args.join(' ')} ended with ${code}:\n${said}${out}`);
  return out;
}
