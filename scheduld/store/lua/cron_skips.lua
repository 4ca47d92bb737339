#!lua flags=allow-oom
-- Has ticks of a schedule skipped, or not skipped any more, by ranges of instants.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7]  cron    hash of the schedule
-- ARGV[7]  name    name of the schedule
-- ARGV[8]  add     ranges to skip, 'FROM-TO FROM-TO' (ms, both included)
-- ARGV[9]  remove  ranges to skip no more
--
-- Returns {0, now µs, code, skips}: 1 stored, 15 gone, 17 broken key, 18 moved, 21 more than 400
--         ranges; the ranges that are skipped now, those behind us left out
--         {-1, now µs} too late
--
-- @include type guard events live changed
local cron, name, add, remove = KEYS[7], ARGV[7], ARGV[8], ARGV[9]
local most = 400

local function each(text, act)
  for from, to in string.gmatch(text or '', '(%d+)-(%d+)') do
    act(tonumber(from), tonumber(to))
  end
end

local ranges = {}
local function include(from, to)
  local others = {}
  for _, range in ipairs(ranges) do
    if range[2] < from or range[1] > to then
      others[#others + 1] = range
    else
      from, to = math.min(from, range[1]), math.max(to, range[2])
    end
  end
  others[#others + 1] = {from, to}
  ranges = others
end

local function exclude(from, to)
  local left = {}
  for _, range in ipairs(ranges) do
    if range[1] < from then
      left[#left + 1] = {range[1], math.min(range[2], from - 1)}
    end
    if range[2] > to then
      left[#left + 1] = {math.max(range[1], to + 1), range[2]}
    end
  end
  ranges = left
end

local known = schedule(name, cron).read()
local code, text = closed(known) or 1, {}
if code == 1 then
  each(known.skips, include)
  each(remove, exclude)
  each(add, include)
  exclude(0, math.min(now, known.mark) - 1)
  table.sort(ranges, function(one, other) return one[1] < other[1] end)
  for index, range in ipairs(ranges) do
    text[index] = int(range[1]) .. '-' .. int(range[2])
  end
  code = #ranges > most and 21 or 1
end
if code == 1 then
  redis.call('HSET', cron, 'skips', table.concat(text, ' '))
  tell_change(name)
end
return {0, now_us, code, table.concat(text, ' ')}
