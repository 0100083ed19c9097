/**
 * Redis (or Valkey), where several nodes tell each other what changed (`changes/`) and count together: how often
 * something is done (`shared-limits.ts`), and how many slots are held (`shared-slots.ts`).
 *
 * Redis holds no durable data, and nothing waits for it: a command that is not answered in 100 ms fails, and until
 * Redis answers again every command fails at once (`connection.ts`). The caller continues without it.
 */
export { inspectRedis, Redis, RedisRefuses, type RedisServer } from './connection.ts';
export { SeenNodes } from './seen-nodes.ts';
export { CountingState, sharedLimits } from './shared-limits.ts';
export { RedisSlots } from './shared-slots.ts';
