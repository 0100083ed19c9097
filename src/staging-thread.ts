/** What the staging thread runs: a composition root of its own, started by mail-flow.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { buildSenderChecks, type CheckSettings } from './compose/sender-checks.ts';
import { answerQuestions } from './delivery/delivery.ts';

if (!parentPort) throw new Error('this file is run as a thread');
const settings = workerData as CheckSettings;
const { checks } = buildSenderChecks(settings);
answerQuestions(parentPort, { checks, hostname: settings.hostname });
