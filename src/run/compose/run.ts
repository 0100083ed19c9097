/** The life of the process: reads the configuration, starts the service, stops it on a signal. */
import { setFlagsFromString } from 'node:v8';
import { changeLevel, openLog } from '../../platform/log/log.ts';
import {
  type Config,
  ConfigError,
  describeStart,
  exitCodeOf,
  readConfig,
} from '../config/config.ts';

/** The longest time from the first signal, after the time for draining, to the end, in milliseconds. */
const STOP_WITHIN_MS = 9_500;

/**
 * How far the heap may grow after one full collection until the next, in percent of the live data.
 *
 * V8 counts the memory of buffers as part of the heap, and lets a heap as small as ours grow by only some 20 MB:
 * that is a few hundred messages, or four attachments. So under load it made ten full collections a second, a fifth
 * of the processor time of SMTP.
 */
const HEAP_GROWTH_PERCENT = 300;

/**
 * V8 makes the objects of a line of code among the old ones once most of those that it made before lived for long. The
 * same lines make rows for a large answer, which live until it is read, and for small ones. After the large answer each
 * small one took new memory from the system until the next full collection, and up to four times as long.
 */
const ALL_OBJECTS_BEGIN_YOUNG = '--no-allocation-site-pretenuring';

/**
 * How full the young generation is, in percent, when V8 collects it between two turns of the event loop: by default 80 of
 * 32 MB. What requests made is garbage by then, and so are the octets of sources that were sent, which V8 keeps outside of the
 * heap and does not count. One `FETCH BODY[]` of 80 MB took 78 MB for that, and takes 23.
 */
const YOUNG_PERCENT = 20;

/** Writes one line for each thing that the operator has to fix, and ends the process. */
function refuseStart(error: unknown): never {
  const lines =
    error instanceof ConfigError ? error.lines : [`Postroom cannot start: ${String(error)}`];
  for (const line of lines) process.stderr.write(`${line}\n`);
  process.exit(exitCodeOf(error));
}

/**
 * Sets V8's flags, once the modules are loaded: V8 takes kept code (`keep-compiled.js`) only with the flags that it was compiled
 * with. Commands have none: with flags that were set earlier each of them would compile all that the service had kept, and
 * replace it, and so would the next start.
 */
function setFlags(): void {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`);
  setFlagsFromString(ALL_OBJECTS_BEGIN_YOUNG);
  setFlagsFromString(`--minor-gc-task-trigger=${YOUNG_PERCENT}`);
}

async function run(config: Config): Promise<void> {
  const log = openLog(config.logLevel);
  const { logger } = log;
  const exit = (code = 0) => void log.close().then(() => process.exit(code));
  // Also for a rejection that nobody handles. The state of the process is unknown, so it ends at once.
  process.on('uncaughtException', (err) => {
    logger.fatal({ err }, 'an error that nothing handles, which is a defect: the process ends');
    process.exit(1);
  });
  // After this the contents of the disk are unknown; the next start recovers them from the log.
  const onLost = (line: string, err?: Error) => {
    logger.fatal(err ? { err } : {}, line);
    exit(1);
  };
  for (const line of config.misspelt) logger.warn(`${line} It is ignored.`);
  // Loaded here, since it takes a second: a wrong setting is reported before.
  const starting = import('./service.ts').then(({ startService }) => {
    setFlags();
    return startService(config, logger, { onLost, hush: log.hush });
  });
  let isStopping = false;
  const stop = (signal: string) => {
    if (isStopping) {
      logger.warn(
        { signal },
        'second stop signal: the process ends now without finishing its work',
      );
      return exit(1);
    }
    isStopping = true;
    const { drainSeconds } = config;
    if (drainSeconds === 0) logger.info({ signal }, 'stopping');
    else {
      logger.info(
        { signal, drainSeconds },
        'stopping: /readyz answers 503 from now on, and the listeners close after DRAIN_SECONDS',
      );
    }
    const stopWithinMs = drainSeconds * 1000 + STOP_WITHIN_MS;
    setTimeout(() => {
      logger.warn('stopping takes too long: the process ends now without finishing its work');
      exit();
    }, stopWithinMs).unref();
    // A start that gets a signal is finished first: then everything it opened is closed in order.
    const stopped = starting.then(async (service) => {
      await service.stop();
      logger.info('stopped');
      exit();
    });
    // The reason of a start that fails is reported below.
    stopped.catch(() => {});
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  process.on('SIGUSR2', () => {
    changeLevel(logger, logger.level === 'debug' ? config.logLevel : 'debug');
  });
  const service = await starting.catch(async (error: unknown) => {
    await log.close();
    return refuseStart(error);
  });
  log.print(describeStart({ ...service, stdoutIsTty: process.stdout.isTTY }));
}

// Its files are mail, keys and password hashes: no other user of this machine may read them.
process.umask(0o077);
/** Runs the service until a signal ends the process; an error for the operator ends it with 1, a refused setting with 78. */
export async function main(): Promise<void> {
  let config: Config;
  try {
    config = readConfig(process.env);
  } catch (error) {
    refuseStart(error);
  }
  await run(config);
}
