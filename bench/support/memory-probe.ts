/**
 * Loaded into the service by `--import`: at SIGUSR2 it writes what the process holds to the file
 * `memory.json` of its working folder.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { measureMemory } from './memory.ts';

process.on('SIGUSR2', () => {
  void measureMemory().then((use) => {
    writeFileSync('memory.json.part', JSON.stringify(use));
    renameSync('memory.json.part', 'memory.json');
  });
});
