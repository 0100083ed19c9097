/** A standby takes over: with all that was answered 250, or, where it was behind, with apps that are told so. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Client } from 'pg';
import { atEnd } from '../support/at-end.ts';
import { MailLoad, until } from './mail-load.ts';
import { findPostgres, type RunningServer, startPostgres } from './postgres.ts';
import { TcpProxy } from './proxy.ts';
import { startRedis } from './redis.ts';
import { RunningNodes } from './running-nodes.ts';

const bin = findPostgres() ?? '';
const redis = await startRedis();
atEnd(() => redis.stop());

/** While there is nothing to write to. */
const NOT_READY = /^503 not ready: database$/;

async function ask(server: RunningServer, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: server.url });
  await client.connect();
  const { rows } = await client.query(sql);
  await client.end();
  return rows;
}

/** Starts nodes on both, with the standby first: the one to write to is found. */
function startOn(t: TestContext, primary: RunningServer, standby: RunningServer) {
  const hosts = `127.0.0.1:${standby.port},127.0.0.1:${primary.port}`;
  const environment = {
    DATABASE_URL: `postgres://test@${hosts}/postgres?target_session_attrs=read-write`,
    DATABASE_TIMEOUT_SECONDS: '1',
    REDIS_URL: redis.url,
  };
  return RunningNodes.start(environment, (cleanup) => t.after(cleanup));
}

test('to a synchronous standby nothing is lost', async (t) => {
  const primary = await startPostgres(bin);
  atEnd(() => primary.stop());
  const standby = await primary.startStandby('near');
  atEnd(() => standby.stop());
  await ask(primary, `alter system set synchronous_standby_names = 'near'`);
  await ask(primary, 'select pg_reload_conf()');
  await until('the standby is synchronous', async () => {
    const sql = `select 1 from pg_stat_replication where sync_state = 'sync'`;
    return (await ask(primary, sql)).length > 0;
  });
  const nodes = await startOn(t, primary, standby);
  const load = new MailLoad(t, nodes, await nodes.balanced.makeAccount());
  await load.flows();
  const asleep = await load.sync();
  await load.flows();
  await primary.kill();
  await nodes.readiness.saysOnly(NOT_READY, () => load.isRefused());
  await standby.promote();
  await load.flows();
  const awake = await load.sync({ token: asleep.token, uidvalidity: asleep.uidvalidity });
  assert.equal(awake.reset, undefined, 'an app that lost nothing starts anew');
  await load.check();
  assert.equal(load.resets, 0, 'an app that follows starts anew');
  await nodes.end();
});

test('to an asynchronous standby apps get a reset where something was lost', async (t) => {
  const primary = await startPostgres(bin);
  atEnd(() => primary.stop());
  const link = await TcpProxy.start(primary.port);
  atEnd(async () => link.stop());
  const standby = await primary.startStandby('far', link.port);
  atEnd(() => standby.stop());
  const nodes = await startOn(t, primary, standby);
  const load = new MailLoad(t, nodes, await nodes.balanced.makeAccount());
  await load.flows();
  const kept = await load.sync();
  // What the standby has by now is kept, what comes after is not.
  const [{ at }] = (await ask(primary, 'select pg_current_wal_lsn() as at')) as [{ at: string }];
  await until('the standby has it', async () => {
    const sql = `select pg_last_wal_replay_lsn() >= '${at}' as has`;
    return JSON.stringify(await ask(standby, sql)).includes('true');
  });
  // For good: a standby that finds its connection dead makes a new one.
  link.silenceAll();
  await load.flows();
  const lost = await load.sync();
  const accepted = load.accepted;
  await primary.kill();
  link.stop();
  await nodes.readiness.saysOnly(NOT_READY, () => load.isRefused());
  await standby.promote();
  await load.flows();
  // As much again has come as was there: by its number alone the state of before is one of the past.
  await until('as much has come again', () => load.accepted > 2 * accepted);
  const { uidvalidity } = kept;
  const behind = await load.sync({ token: lost.token, uidvalidity });
  assert.equal(behind.reset, true, 'an app that saw what was lost is not told so');
  const before = await load.sync({ token: kept.token, uidvalidity });
  assert.equal(before.reset, undefined, 'an app that lost nothing starts anew');
  await load.check({ mayLose: true });
  await nodes.end();
});
