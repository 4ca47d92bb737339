#!lua flags=allow-oom
-- Raises watermarks that a failover or a restore has set back, without firing anything.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] crons  hashes of the schedules
-- ARGV[7] count  how many pairs follow: name, mark (ms; the newest instant that the caller saw)
--
-- Returns {0, now µs, rows}, a row a schedule {code, mark ms}: 1 raised, 2 not needed, 15 gone,
--         17 broken key
--         {-1, now µs} too late
--
-- @include type guard events live changed
local count = tonumber(ARGV[7])

local rows = {}
for index = 1, count do
  local key = KEYS[6 + index]
  local mark, known = ARGV[7 + index * 2], schedule(ARGV[6 + index * 2], key).read()
  local code = absence(known) or known.mark < tonumber(mark) and 1 or 2
  if code == 1 then
    redis.call('HSET', key, 'mark', mark)
  end
  rows[index] = {code, code == 1 and mark or known and int(known.mark) or ''}
end
return {0, now_us, rows}
