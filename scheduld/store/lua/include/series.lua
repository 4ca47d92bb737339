-- What a claim tells of a task that is periodic, or was made by a schedule: its fields, flat.
local function series_of(key)
  local told_fields = {'every', 'until', 'max_runs', 'zone', 'anchor', 'series', 'grid', 'runs',
    'missed', 'revision', 'over', 'schedule', 'tick'}
  local values, flat = redis.call('HMGET', key, unpack(told_fields)), {}
  for place, name in ipairs(told_fields) do
    if values[place] then
      flat[#flat + 1], flat[#flat + 2] = name, values[place]
    end
  end
  return flat
end
