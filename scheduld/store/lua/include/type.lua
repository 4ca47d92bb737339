-- What every script of a task type begins with.
--
-- KEYS[1] due     zset: id -> due ms
-- KEYS[2] leased  zset: id -> lease end ms
-- KEYS[3] done    zset: id -> finished ms
-- KEYS[4] dead    zset: id -> died ms
-- KEYS[5] meta    hash: fence, lease, counters
-- KEYS[6] events  stream: one entry per call that changed something
-- ARGV[1] prefix       key of a task's hash without its id
-- ARGV[2] given_now    '' or the ms to take as now (tests, simulation)
-- ARGV[3] valid_until  '' or the server ms after which the call must not be carried out
-- ARGV[4] node         who calls, for the events
-- ARGV[5] type_name    name of the type, for the wake-up
-- ARGV[6] wake         channel of the wake-up
local due, leased, done, dead, meta, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local prefix, given_now, valid_until = ARGV[1], ARGV[2], ARGV[3]
local node, type_name, wake = ARGV[4], ARGV[5], ARGV[6]

-- 16 digits do not survive Lua's own conversion, which keeps 14.
local function int(number)
  return string.format('%.0f', number)
end

-- Fields of a hash may hold anything: other programs write them too. Answers nil for what is
-- no time or count.
local function number(text)
  local value = tonumber(text)
  return value and value >= 0 and value <= 9e15 and value or nil
end

local now_us
if given_now ~= '' then
  now_us = tonumber(given_now) * 1000
else
  local clock = redis.call('TIME')
  now_us = clock[1] * 1000000 + clock[2]
end
local now = math.floor(now_us / 1000)

-- A frozen server carries calls out long after their caller gave up.
if valid_until ~= '' and now > tonumber(valid_until) then
  return {-1, now_us}
end
