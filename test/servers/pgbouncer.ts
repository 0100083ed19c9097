/** PgBouncer in transaction mode: each transaction may get another connection to the server. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../support/free-port.ts';
import { until } from './mail-load.ts';
import { asServerUser } from './postgres.ts';

/** @param to port of the server @param user who may log in, without a password */
export async function startPgbouncer(
  to: number,
  user: string,
): Promise<{ port: number; stop(): Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-pgbouncer-'));
  await chmod(directory, 0o777);
  const port = await freePort();
  const users = join(directory, 'users');
  await writeFile(users, `"${user}" ""\n`);
  const file = join(directory, 'pgbouncer.ini');
  const lines = [
    '[databases]',
    `* = host=127.0.0.1 port=${to}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = trust',
    `auth_file = ${users}`,
    'pool_mode = transaction',
    'default_pool_size = 4',
    'server_lifetime = 1',
    'server_login_retry = 1',
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  const [command, args] = asServerUser('/usr/sbin/pgbouncer', [file]);
  const pooler = spawn(command, args, { cwd: directory, stdio: 'ignore' });
  const exited = once(pooler, 'exit');
  await until('PgBouncer listens', async () => {
    const socket = connect(port, '127.0.0.1');
    const isThere = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'close').then(() => false),
    ]).catch(() => false);
    socket.destroy();
    return isThere;
  });
  return {
    port,
    async stop() {
      pooler.kill('SIGINT');
      await exited;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
