// BullMQ driver: one action a run, one JSON object as the last line of stdout.
//
// node_modules live apart from this file (git-ignored), in a folder that the
// installer fills from package.json: BENCH_MODULES names it, with the harness's
// place as the default.
import { createRequire } from 'node:module';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const here = dirname(fileURLToPath(import.meta.url));
const modules = process.env.BENCH_MODULES ?? resolve(here, '../../.peers/bullmq');
const require = createRequire(resolve(modules, 'package.json'));
const { Queue, Worker, createNodeRedisClient } = require('bullmq');

// What each variant sets. `client` is the Redis client BullMQ talks through, `bulkClient` the one
// under addBulk, where node-redis costs this process half of what ioredis does (elsewhere it loses).
const VARIANTS = {
  default: { client: 'ioredis', concurrency: 1, keep: null, bulkClient: 'ioredis', bulk: 100, flight: 1, drainDelay: 5 },
  tuned: { client: 'ioredis', concurrency: 100, keep: 0, bulkClient: 'node-redis', bulk: 500, flight: 2, drainDelay: 60 },
};

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    redis: { type: 'string', default: 'redis://127.0.0.1:6379/0' },
    variant: { type: 'string', default: 'default' },
    count: { type: 'string', default: '2000' },
    delay: { type: 'string', default: '0' },
    mode: { type: 'string', default: 'one' },
    seconds: { type: 'string', default: '20' },
    types: { type: 'string', default: '10' },
    set: { type: 'string', multiple: true, default: [] }, // one knob by hand: --set concurrency=200
  },
});
const action = positionals[0];
const count = Number(flags.count);
const seconds = Number(flags.seconds);
const knobs = { ...VARIANTS[flags.variant] };
for (const pair of flags.set) {
  const [name, value] = pair.split('=');
  knobs[name] = /^-?\d+$/.test(value) ? Number(value) : value === 'true' ? true : value === 'false' ? false : value;
}

const QUEUE = 'bench';
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const payload = (n) => ({ to: `user${String(n).padStart(5, '0')}@example.com`, n });

async function connection(client = knobs.client) {
  const url = new URL(flags.redis);
  if (client === 'node-redis') {
    const { createClient } = require('redis');
    return createNodeRedisClient(createClient({ url: flags.redis }));
  }
  return {
    host: url.hostname,
    port: Number(url.port || 6379),
    db: Number(url.pathname.slice(1) || 0),
    enableAutoPipelining: knobs.pipelining ?? false, // measured: slower in every case
    maxRetriesPerRequest: null,
  };
}

async function openQueue(client = knobs.client) {
  const queue = new Queue(QUEUE, { connection: await connection(client) });
  await queue.waitUntilReady();
  return queue;
}

async function openWorker(handler, name = QUEUE) {
  const options = {
    connection: await connection(),
    concurrency: knobs.concurrency,
    drainDelay: knobs.drainDelay,
    autorun: false,
  };
  if (knobs.keep !== null) {
    options.removeOnComplete = { count: knobs.keep };
    options.removeOnFail = { count: knobs.keep };
  }
  const worker = new Worker(name, handler, options);
  worker.on('error', (error) => console.error(error));
  await worker.waitUntilReady();
  return worker;
}

// Wall and CPU clock of a stretch of this process.
function stopwatch() {
  const cpu = process.cpuUsage();
  const start = process.hrtime.bigint();
  return () => {
    const wall = Number(process.hrtime.bigint() - start) / 1e9;
    const used = process.cpuUsage(cpu);
    return { seconds: wall, cpu_seconds: (used.user + used.system) / 1e6 };
  };
}

// The same instants in every run of this driver (mulberry32).
function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function info() {
  const words = (v) =>
    `Worker concurrency ${v.concurrency}, drainDelay ${v.drainDelay} s, finished jobs ` +
    `${v.keep === null ? 'kept (default)' : 'removed at once (removeOnComplete/Fail count 0)'}; ` +
    `addBulk of ${v.bulk}, ${v.flight} at a time, by ${v.bulkClient}; all else by ${v.client}`;
  return {
    name: 'bullmq',
    version: require('bullmq/package.json').version,
    delivery: 'at-least-once',
    variants: { default: words(VARIANTS.default), tuned: words(VARIANTS.tuned) },
    actions: ['info', 'fill', 'add', 'work', 'late', 'instant', 'idle'],
  };
}

async function addBulk(queue, from, to, optionsOf) {
  const jobs = [];
  for (let n = from; n < to; n += 1) jobs.push({ name: 'noop', data: payload(n), opts: optionsOf?.(n) });
  await queue.addBulk(jobs);
}

async function fill() {
  const queue = await openQueue();
  const delay = Number(flags.delay) * 1000;
  const optionsOf = delay > 0 ? () => ({ delay }) : undefined;
  for (let n = 0; n < count; n += 1000) await addBulk(queue, n, Math.min(n + 1000, count), optionsOf);
  await queue.close();
  return { count };
}

async function add() {
  const queue = await openQueue(flags.mode === 'bulk' ? knobs.bulkClient : knobs.client);
  const one = (n) => queue.add('noop', payload(n));
  for (let n = 0; n < 100; n += 1) await one(n);
  await Promise.all(Array.from({ length: 100 }, (_, n) => one(n)));
  await addBulk(queue, 0, 100);
  const lap = stopwatch();
  if (flags.mode === 'one') {
    for (let n = 0; n < count; n += 1) await one(n);
  } else if (flags.mode === 'gathered') {
    for (let n = 0; n < count; n += 100) {
      await Promise.all(Array.from({ length: Math.min(100, count - n) }, (_, i) => one(n + i)));
    }
  } else {
    let next = 0;
    const lane = async () => {
      while (next < count) {
        const from = next;
        next = Math.min(from + knobs.bulk, count);
        await addBulk(queue, from, next);
      }
    };
    await Promise.all(Array.from({ length: knobs.flight }, lane));
  }
  const took = lap();
  await queue.close();
  return { count, ...took };
}

async function work() {
  let lap;
  let runs = 0;
  let finish;
  const done = new Promise((resolved) => (finish = resolved));
  const worker = await openWorker(async () => {
    lap ??= stopwatch();
    runs += 1;
    if (runs === count) finish(lap());
  });
  const running = worker.run();
  const took = await done;
  await sleep(300); // room for a double run to show
  await worker.close();
  await running;
  return { count, ...took, started: runs };
}

// Adds the jobs of `due` (ms since the epoch, one each), runs them, gives how late each began.
async function punctual(due) {
  const queue = await openQueue();
  const lateness = [];
  let finish;
  const done = new Promise((resolved) => (finish = resolved));
  const worker = await openWorker(async (job) => {
    lateness.push(Date.now() - job.data.due);
    if (lateness.length === due.length) finish();
  });
  const running = worker.run();
  for (let n = 0; n < due.length; n += 1000) {
    const timestamp = Date.now();
    const jobs = due.slice(n, n + 1000).map((at, i) => ({
      name: 'noop',
      data: { ...payload(n + i), due: at },
      opts: { timestamp, delay: at - timestamp },
    }));
    await queue.addBulk(jobs);
  }
  await done;
  await worker.close();
  await running;
  await queue.close();
  return { count: due.length, lateness_ms: lateness, early: lateness.filter((ms) => ms < 0).length };
}

function late() {
  const random = seeded(1);
  const start = Date.now() + 2000;
  return punctual(Array.from({ length: count }, () => start + Math.floor(random() * seconds * 1000)));
}

function instant() {
  return punctual(new Array(count).fill(Date.now() + 3000));
}

async function idle() {
  const workers = [];
  for (let n = 0; n < Number(flags.types); n += 1) {
    const worker = await openWorker(async () => {}, `${QUEUE}-${n}`);
    workers.push({ worker, running: worker.run() });
  }
  await sleep(3000);
  console.log('READY');
  const lap = stopwatch();
  await sleep(seconds * 1000);
  return lap();
}

const ACTIONS = { info, fill, add, work, late, instant, idle };
const result = ACTIONS[action] ? await ACTIONS[action]() : { unsupported: `no action ${action}` };
// The workers of `idle` sit in blocking pops: leave without waiting for them.
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
