#!lua flags=allow-oom
-- Keeps what runs tell on their way with their tasks: the newest progress, the last log lines.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] tasks    hashes of the tasks
-- ARGV[7] max_lines  lines kept of a task: the last ones ...
-- ARGV[8] max_bytes  ... within so many bytes
-- ARGV[9] count      how many runs follow, each: id, fence, progress (JSON or ''), number of its
--                    first line among those of the run, how many lines, the lines (one JSON each)
--
-- Returns {0, now µs, codes}: 1 kept (those that were kept before are not repeated), 3 refused
--                             (the lease is lost)
--         {-1, now µs} too late
--
-- @include type guard log
local max_lines, max_bytes, count = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])

local codes, at = {}, 10
for index = 1, count do
  local id, fence, progress = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local first, size = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local key = KEYS[6 + index]
  local task = redis.pcall('HMGET', key, 'fence', 'log', 'logged')
  if task.err or task[1] ~= fence or not redis.call('ZSCORE', leased, id) then
    codes[index] = 3
  else
    if progress ~= '' then
      redis.call('HSET', key, 'progress', progress)
    end
    local fresh, told = new_lines(task[3], fence, first, at + 5, size)
    if #fresh > 0 then
      redis.call('HSET', key, 'log', tail(task[2], fresh, max_lines, max_bytes), 'logged', told)
    end
    codes[index] = 1
  end
  at = at + 5 + size
end
return {0, now_us, codes}
