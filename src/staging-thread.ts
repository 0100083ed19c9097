/** What the staging thread runs: a composition root of its own, started by mail-flow.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { answerQuestions } from './delivery/delivery.ts';
import { buildSenderChecks, type CheckSettings } from './sender-checks.ts';

if (!parentPort) throw new Error('this file is run as a thread');
const settings = workerData as CheckSettings;
const { checks } = buildSenderChecks(settings);
answerQuestions(parentPort, { checks, hostname: settings.hostname });
