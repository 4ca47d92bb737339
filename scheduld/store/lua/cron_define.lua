#!lua
-- Stores definitions of schedules, each by compare-and-set on the digest of the one before.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] crons  hashes of the schedules
-- ARGV[7] count  how many follow, twelve arguments each: name, definition (JSON), digest, rule
--                (digest of what decides the instants), origin (config, runtime), payload (JSON
--                of tasks), overlap, most (unfinished tasks of overlap = allow), max_runs ('':
--                no end), keep (COUNT AGE of the history), expected (digest of the one before),
--                carried (fields that a new one takes over, lines of NAME=VALUE)
--
-- Returns {0, now µs, rows}, a row a schedule {code, mark ms, digest}: 1 new, 2 changed, its rule
--         too, 3 changed, 4 stored before; and refused: 5 another digest than expected (that
--         one is told; 'moved:TYPE' of one that has moved away; its own: there is none), 6 the name is taken by the other origin, 7 broken key
--         {-1, now µs} too late
--
-- @include type guard events live
local count = tonumber(ARGV[7])
local rows = {}

-- New, or with another rule or zone: it begins now, since an edit is no missed run.
local function code_of(known, digest, rule, origin, expected)
  if not known then
    return known == false and 7 or expected ~= '' and 5 or 1
  elseif known.moved then
    -- A replica that missed the move must not bring it back.
    return expected == known.digest and 2 or 5
  elseif known.origin ~= origin then
    return 6
  elseif known.digest == digest then
    return 4
  elseif known.digest ~= expected then
    return 5
  end
  return known.rule ~= rule and 2 or 3
end

for index = 1, count do
  local at, key = index * 12 - 5, KEYS[6 + index]
  local name, digest, rule, origin = ARGV[at + 1], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  local known = schedule(name, key).read()
  if known and known.moved then
    known.digest = 'moved:' .. known.moved
  end
  local code = code_of(known, digest, rule, origin, ARGV[at + 11])
  local mark = known and known.mark or 0
  if code == 1 then
    redis.call('DEL', key)
    redis.call('PERSIST', root .. 'live:' .. name)
    redis.call('PERSIST', root .. 'ticks:' .. name)
  elseif code < 5 then
    redis.call('HDEL', key, 'moved', 'orphan', 'orphan_at', 'parked')
  end
  if code < 4 then
    mark = code < 3 and now or mark
    local is_new = code == 1 or known.moved
    for field, value in string.gmatch(is_new and ARGV[at + 12] or '', '([%l_]+)=([^\n]*)') do
      mark = field == 'mark' and math.min(mark, tonumber(value)) or mark
      redis.call('HSET', key, field, value)
    end
    redis.call('HSET', key, 'definition', ARGV[at + 2], 'digest', digest, 'rule', rule,
      'origin', origin, 'payload', ARGV[at + 6], 'overlap', ARGV[at + 7], 'most', ARGV[at + 8],
      'keep', ARGV[at + 10], 'mark', int(mark))
    redis.call('HDEL', key, 'max_runs')
    if ARGV[at + 9] ~= '' then
      redis.call('HSET', key, 'max_runs', ARGV[at + 9])
    end
    if origin == 'runtime' then
      redis.pcall('PUBLISH', wake, type_name .. ' cron ' .. name)
    end
  end
  rows[index] = {code, int(mark), code > 4 and known and known.digest or digest}
end
return {0, now_us, rows}
