#!lua
-- Notes that no replica announces a schedule of a config any more; removes it when that is long ago.
-- Not while memory is full: then replicas that live cannot announce anything.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] cron   hash of the schedule
-- ARGV[7] name   name of the schedule
-- ARGV[8] after  ms after which it is removed; it begins anew with a definition meanwhile, and if
--                nobody says so for half as long
--
-- Returns {0, now µs, code, since, next}: 1 noted, since that ms; 2 removed, and where to go on
--         with its tasks or '' (cron_remove.lua); 15 gone, 17 broken key, 20 of no config
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends state anew back ready stop uncron changed
local cron, name, after = KEYS[7], ARGV[7], tonumber(ARGV[8])

local known = schedule(name, cron).read()
local code, since, next_start = absence(known) or known.origin ~= 'config' and 20 or 1, now, ''
if code == 1 then
  -- It waits anew after a clock that went back, and after a while in which nobody was there to
  -- see it announced.
  local said = number(known.orphan_at) or 0
  if said <= now and now - said <= after / 2 then
    since = math.min(number(known.orphan) or now, now)
  end
  if now - since >= after and known.orphan then
    code = 2
    local _, place = remove(name, known, 'no replica announces it')
    next_start = place
    tell_change(name)
  else
    redis.call('HSET', cron, 'orphan', int(since), 'orphan_at', int(now))
  end
end
write_events()
return {0, now_us, code, int(since), next_start}
