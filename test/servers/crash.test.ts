/** 20 kills on the embedded database, or as many as CRASH_ROUNDS says. */
import { declareCrashTest } from './crash.ts';

declareCrashTest({ rounds: Number(process.env.CRASH_ROUNDS ?? '20') });
